package mappers

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// DeploymentToBusyboxes maps a Deployment to the Busybox of the same name.
func (m *Mappers) DeploymentToBusyboxes() handler.EventHandler {
	return m.newHandler("deployment-to-busyboxes", client.ObjectKeyFromObject,
		m.findByName(func() client.Object { return &examplev1alpha1.Busybox{} }))
}

// DeploymentToMemcacheds maps a Deployment to the Memcached of the same name.
func (m *Mappers) DeploymentToMemcacheds() handler.EventHandler {
	return m.newHandler("deployment-to-memcacheds", client.ObjectKeyFromObject,
		m.findByName(func() client.Object { return &cachev1alpha1.Memcached{} }))
}

// DeploymentToFoos maps a Deployment to the Foos that name it in spec.deploymentName.
func (m *Mappers) DeploymentToFoos() handler.EventHandler {
	return m.newHandler("deployment-to-foos", client.ObjectKeyFromObject, m.findFoos)
}

// DeploymentToVerticalScalers maps a Deployment to the VerticalScalers that target it.
func (m *Mappers) DeploymentToVerticalScalers() handler.EventHandler {
	return m.newHandler("deployment-to-verticalscalers", client.ObjectKeyFromObject, m.findVerticalScalers)
}
