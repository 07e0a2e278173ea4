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
	// ManagerNamespace is where Upright's own objects live.
	ManagerNamespace = "upright-system"
	// ManagerServiceAccount is whose credentials the manager uses.
	ManagerServiceAccount = "upright-manager"

	// managerDir is the part of the deploy folder that has the manager's Deployment.
	managerDir = "manager"

	establishedInterval = 100 * time.Millisecond
	establishedTimeout  = time.Minute

	// tokenDuration outlives any demo and any test.
	tokenDuration = "720h"
)

// InstallUpright applies what the kustomization of the deploy folder lists, but
// for the manager's Deployment: here the manager runs as a process of this
// machine, and a simulated pod of it would only pretend. It returns when the API
// server serves the kinds.
func (c *Cluster) InstallUpright(ctx context.Context, deploy string) error {
	file := filepath.Join(deploy, "kustomization.yaml")
	manifest, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading what to install: %w", err)
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
		return fmt.Errorf("waiting for the kinds to be served: %w", err)
	}
	return nil
}

// waitEstablished waits until the API server serves all the kinds that are defined. kubectl
// fails at once on a definition that has no conditions at all yet, so it is asked again.
func (c *Cluster) waitEstablished(ctx context.Context) error {
	var failure error
	err := wait.PollUntilContextTimeout(ctx, establishedInterval, establishedTimeout, true, func(ctx context.Context) (bool, error) {
		_, failure = c.Kubectl(ctx, "wait", "--for=condition=Established", "customresourcedefinitions", "--all",
			"--timeout="+establishedTimeout.String())
		return failure == nil, nil
	})
	if err != nil {
		return errors.Join(err, failure)
	}
	return nil
}

// ManagerKubeconfig writes a kubeconfig that holds a token of the manager's
// ServiceAccount and no other credentials, and returns its path.
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
