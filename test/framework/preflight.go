// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// needed are the Deployments without which nothing here can be shown.
var needed = []struct{ what, namespace, deployment, remedy string }{
	{"Tekton Pipelines", "tekton-pipelines", "tekton-pipelines-controller", startCluster},
	{"Knative Serving", "knative-serving", "controller", startCluster},
	{"Knative Serving's webhook", "knative-serving", "webhook", startCluster},
	{"the injector", SystemNamespace, Injector, "install it: ko apply -f config/webhook"},
}

const startCluster = "\"make e2e\" and \"make demo\" start a cluster that has all that is needed; for one of your own, set KUBECONFIG"

// Preflight says what is missing, and what to run to get it.
func (c *Cluster) Preflight(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := c.Kube.Discovery().ServerVersion(); err != nil {
		return fmt.Errorf("reaching the cluster at %s: %w; %s", c.Config.Host, err, startCluster)
	}
	for _, n := range needed {
		deployment, err := c.Kube.AppsV1().Deployments(n.namespace).Get(ctx, n.deployment, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("looking for %s: %w; %s", n.what, err, n.remedy)
		}
		if deployment.Status.AvailableReplicas == 0 {
			return fmt.Errorf("looking for %s: Deployment %q in namespace %q has no available replica: %s; kubectl -n %s get pods",
				n.what, n.deployment, n.namespace, complaints(deployment.Status.Conditions), n.namespace)
		}
	}
	for _, tool := range []string{"ko", "kubectl"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("looking for %s, which builds and installs: %w; %s", tool, err, startCluster)
		}
	}
	if os.Getenv("KO_DOCKER_REPO") == "" {
		return errors.New("KO_DOCKER_REPO is not set; set it to a registry that the cluster can pull from")
	}
	return nil
}
