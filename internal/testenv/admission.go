package testenv

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AdmissionObjects returns the admission policy that sizes new pods, and its binding, from deploy.
func AdmissionObjects() ([]client.Object, error) {
	manifest, err := os.ReadFile(filepath.Join(Root(), "deploy", "admission", "sizing.yaml"))
	if err != nil {
		return nil, err
	}
	var all []client.Object
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), len(manifest))
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, obj)
	}
}

// InstallAdmission creates the admission policy and its binding.
func (e *Environment) InstallAdmission() error {
	all, err := AdmissionObjects()
	for _, obj := range all {
		err = errors.Join(err, e.Client.Create(context.Background(), obj))
	}
	return err
}
