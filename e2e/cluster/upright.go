package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

const (
	// ManagerNamespace is the namespace of Upright's own objects.
	ManagerNamespace = "upright-system"
	// ManagerServiceAccount is the ServiceAccount of the manager.
	ManagerServiceAccount = "upright-manager"

	// managerDir is the part of the deploy folder with the manager's Deployment.
	managerDir = "manager"

	establishedInterval = 100 * time.Millisecond
	establishedTimeout  = time.Minute

	// tokenDuration is longer than any demo or test.
	tokenDuration = "720h"
)

// InstallUpright applies the resources in the kustomization of the deploy folder, except for
// the manager's Deployment: here the manager runs as a process of this machine, because pods
// are only simulated. It returns when the API server serves Upright's kinds.
func (c *Cluster) InstallUpright(ctx context.Context, deploy string) error {
	file := filepath.Join(deploy, "kustomization.yaml")
	manifest, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the kustomization: %w", err)
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(manifest, &kustomization); err != nil {
		return fmt.Errorf("parsing %s: %w", file, err)
	}
	for _, resource := range kustomization.Resources {
		if filepath.Clean(resource) == managerDir {
			continue
		}
		dir := filepath.Join(deploy, resource)
		if _, err := c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", dir); err != nil {
			return fmt.Errorf("installing %s: %w", dir, err)
		}
	}
	if err := c.waitEstablished(ctx); err != nil {
		return fmt.Errorf("waiting until the API server serves the kinds: %w", err)
	}
	return nil
}

// waitEstablished waits until the API server serves the kinds of all CustomResourceDefinitions.
// It retries, because kubectl fails immediately if a definition has no conditions yet.
func (c *Cluster) waitEstablished(ctx context.Context) error {
	var lastErr error
	err := wait.PollUntilContextTimeout(ctx, establishedInterval, establishedTimeout, true, func(ctx context.Context) (bool, error) {
		_, lastErr = c.Kubectl(ctx, "wait", "--for=condition=Established", "customresourcedefinitions", "--all",
			"--timeout="+establishedTimeout.String())
		return lastErr == nil, nil
	})
	if err != nil {
		return errors.Join(err, lastErr)
	}
	return nil
}

// ManagerKubeconfig writes a kubeconfig and returns its path. Its only credentials are a token
// of the manager's ServiceAccount.
func (c *Cluster) ManagerKubeconfig(ctx context.Context) (string, error) {
	token, err := c.Kubectl(ctx, "create", "token", ManagerServiceAccount,
		"--namespace", ManagerNamespace, "--duration", tokenDuration)
	if err != nil {
		return "", fmt.Errorf("requesting a token for the manager: %w", err)
	}
	admin, err := c.Config()
	if err != nil {
		return "", err
	}
	if err := rest.LoadTLSFiles(admin); err != nil {
		return "", fmt.Errorf("reading the cluster's certificate authority: %w", err)
	}
	config := api.NewConfig()
	config.Clusters[clusterName] = &api.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos[ManagerServiceAccount] = &api.AuthInfo{Token: strings.TrimSpace(token)}
	config.Contexts[clusterName] = &api.Context{Cluster: clusterName, AuthInfo: ManagerServiceAccount}
	config.CurrentContext = clusterName
	if err := clientcmd.WriteToFile(*config, c.managerKubeconfig()); err != nil {
		return "", fmt.Errorf("writing the manager's kubeconfig: %w", err)
	}
	return c.managerKubeconfig(), nil
}

func (c *Cluster) managerKubeconfig() string { return c.path("manager.kubeconfig") }
