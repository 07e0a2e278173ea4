package main

// The manager itself needs these permissions to authenticate and authorize the clients of its
// metrics endpoint. The permissions of the controllers are next to the controllers.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
