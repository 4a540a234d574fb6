// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package framework is what the end-to-end tests and the demo have in common: a
// cluster's clients, the examples, waiting, and looking into containers.
//
// It works with any cluster that KUBECONFIG names. These variables adapt it:
//
//   - E2E_IMAGE_REGISTRY (host:port): the mirror from which the nodes pull images of
//     Docker Hub, where they have one
//   - E2E_PRIVATE_REGISTRY (user:password@host:port): a registry that asks for a
//     password; tests of private images are skipped without
//   - E2E_SHARED_STORAGE_CLASS: a storage class whose volumes all nodes can mount at
//     once; tests of claims are skipped without
//   - E2E_WEBHOOK_CLIENT_CA (a file): the CA of the certificate that the API server
//     shows webhooks; a test of foreign callers is skipped without
//   - E2E_INGRESS (host:port): where Knative Services answer, if Knative can't say
//   - those of ko, which builds the images of ko:// references: KO_DOCKER_REPO, ...
package framework

import (
	"context"
	"errors"
	"fmt"
	"net"

	tektonclient "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	servingclient "knative.dev/serving/pkg/client/clientset/versioned"
)

// Cluster is a cluster's clients.
type Cluster struct {
	Config  *rest.Config
	Kube    kubernetes.Interface
	Tekton  tektonclient.Interface
	Serving servingclient.Interface
	Dynamic dynamic.Interface
}

// Connect returns clients of the cluster that KUBECONFIG, or ~/.kube/config, names.
// It doesn't talk to it yet.
func Connect() (*Cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding a cluster: %w; set KUBECONFIG", err)
	}
	config.QPS = -1                           // the API server's own flow control is enough
	config.WarningHandler = rest.NoWarnings{} // which pods in the examples could be safer is not what they show
	c := &Cluster{Config: config}
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a Kubernetes client: %w", err)
	}
	if c.Tekton, err = tektonclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a Tekton client: %w", err)
	}
	if c.Serving, err = servingclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a Knative Serving client: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	return c, nil
}

// OwnAddress is where nodes, and what runs on them, find this machine.
func (c *Cluster) OwnAddress(ctx context.Context) (net.IP, error) {
	const looking = "looking for the address of this machine"
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: corev1.LabelHostname})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", looking, err)
	}
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type != corev1.NodeInternalIP {
				continue
			}
			// Nothing is sent: the kernel chooses the address that packets would come from.
			connection, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(a.Address, "9"))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", looking, err)
			}
			defer connection.Close()
			return connection.LocalAddr().(*net.UDPAddr).IP, nil
		}
	}
	return nil, errors.New(looking + ": no node has one")
}
