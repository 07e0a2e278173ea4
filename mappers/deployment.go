package mappers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/indexers"
)

// DeploymentToBusyboxes maps a Deployment to the Busybox of its name.
func DeploymentToBusyboxes(reader client.Reader, failures *prometheus.CounterVec) handler.EventHandler {
	return newHandler("deployment-to-busyboxes", failures, client.ObjectKeyFromObject, references{
		reader:  reader,
		newList: func() client.ObjectList { return &examplev1alpha1.BusyboxList{} },
		field:   indexers.BusyboxName,
	})
}

// DeploymentToMemcacheds maps a Deployment to the Memcached of its name.
func DeploymentToMemcacheds(reader client.Reader, failures *prometheus.CounterVec) handler.EventHandler {
	return newHandler("deployment-to-memcacheds", failures, client.ObjectKeyFromObject, references{
		reader:  reader,
		newList: func() client.ObjectList { return &cachev1alpha1.MemcachedList{} },
		field:   indexers.MemcachedName,
	})
}

// DeploymentToFoos maps a Deployment to the Foos that ask for its name.
func DeploymentToFoos(reader client.Reader, failures *prometheus.CounterVec) handler.EventHandler {
	return newHandler("deployment-to-foos", failures, client.ObjectKeyFromObject, references{
		reader:  reader,
		newList: func() client.ObjectList { return &examplev1alpha1.FooList{} },
		field:   indexers.FooDeploymentName,
	})
}

// DeploymentToVerticalScalers maps a Deployment to the VerticalScalers that name it.
func DeploymentToVerticalScalers(reader client.Reader, failures *prometheus.CounterVec) handler.EventHandler {
	return newHandler("deployment-to-verticalscalers", failures, client.ObjectKeyFromObject, verticalScalers(reader))
}

// verticalScalers finds the VerticalScalers that name a Deployment.
func verticalScalers(reader client.Reader) references {
	return references{
		reader:  reader,
		newList: func() client.ObjectList { return &autoscalingv1beta1.VerticalScalerList{} },
		field:   indexers.VerticalScalerDeploymentName,
	}
}
