// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// Ask sends a GET request for path to a Knative Service, through the ingress,
// and returns the answer. What isn't 200 is an error.
func (c *Cluster) Ask(ctx context.Context, service *servingv1.Service, path string) (string, error) {
	ingress, err := c.Ingress(ctx, service)
	if err != nil {
		return "", err
	}
	host := service.Status.URL.Host
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, (&url.URL{Scheme: "http", Host: ingress}).String()+path, nil)
	if err != nil {
		return "", fmt.Errorf("asking %q: %w", host, err)
	}
	request.Host = host
	// No proxy, and no connection of an earlier test.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking %q: %w", host, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("asking %q: %w", host, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("asking %q at %s: %s: %s", host, ingress, response.Status, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}

// Ingress is host:port of where Knative Services answer: what E2E_INGRESS says,
// or an address of the Kubernetes Service that Knative says it is.
func (c *Cluster) Ingress(ctx context.Context, service *servingv1.Service) (string, error) {
	if configured := os.Getenv("E2E_INGRESS"); configured != "" {
		return configured, nil
	}
	const help = "set E2E_INGRESS to the host:port where Knative Services answer"
	ingress, err := c.Dynamic.Resource(schema.GroupVersionResource{
		Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "ingresses",
	}).Namespace(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("finding the ingress: %w; %s", err, help)
	}
	name, namespace, err := publicService(ingress)
	if err != nil {
		return "", fmt.Errorf("finding the ingress: %w; %s", err, help)
	}
	balancer, err := c.Kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("finding the ingress: %w; %s", err, help)
	}
	address, ok := externalAddress(balancer)
	if !ok {
		return "", fmt.Errorf("finding the ingress: Service %q in namespace %q has no external address; %s", name, namespace, help)
	}
	return address, nil
}

// publicService reads name and namespace off the DNS name that a Knative ingress has within the cluster.
func publicService(ingress *unstructured.Unstructured) (name, namespace string, _ error) {
	balancers, _, _ := unstructured.NestedSlice(ingress.Object, "status", "publicLoadBalancer", "ingress")
	for _, balancer := range balancers {
		fields, _ := balancer.(map[string]any)
		internal, _ := fields["domainInternal"].(string)
		if parts := strings.Split(internal, "."); len(parts) > 2 {
			return parts[0], parts[1], nil
		}
	}
	return "", "", errors.New("the Knative ingress names no Service")
}

func externalAddress(service *corev1.Service) (string, bool) {
	port := httpPort(service)
	for _, ip := range service.Spec.ExternalIPs {
		return net.JoinHostPort(ip, port), true
	}
	for _, balancer := range service.Status.LoadBalancer.Ingress {
		return net.JoinHostPort(cmp.Or(balancer.IP, balancer.Hostname), port), true
	}
	return "", false
}

func httpPort(service *corev1.Service) string {
	for _, port := range service.Spec.Ports {
		if strings.HasPrefix(port.Name, "http") && !strings.HasPrefix(port.Name, "https") {
			return strconv.Itoa(int(port.Port))
		}
	}
	return "80"
}
