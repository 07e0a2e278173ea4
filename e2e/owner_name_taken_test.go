package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeploymentNamePassesToAnotherKindWhenItsOwnerIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	busybox := kinds[0].newOwner(namespace, "app", 1)
	createReady(t, busybox)
	foo := newFoo(namespace, "app", 2)

	create(t, foo)

	assert.Contains(t, waitForDegraded(t, foo, "DeploymentNameTaken"), `Busybox "app"`)
	deployment := getDeployment(t, namespace, "app")
	assert.True(t, metav1.IsControlledBy(deployment, busybox))
	remove(t, busybox)
	waitForReady(t, foo)
	assert.True(t, metav1.IsControlledBy(refresh(t, deployment), foo))
	waitForPods(t, deployment, 2)
}
