// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// LogService is the name of the log service's Deployment, in endpoint.Namespace.
const LogService = "logs"

// LogEndpoint is where the log service says that it is.
func (c *Cluster) LogEndpoint(ctx context.Context) (endpoint.Endpoint, error) {
	configMap, err := c.Kube.CoreV1().ConfigMaps(endpoint.Namespace).Get(ctx, endpoint.ConfigMap, metav1.GetOptions{})
	if err != nil {
		return endpoint.Endpoint{}, fmt.Errorf("looking for the log service: %w; install it: ko apply -f config/logs", err)
	}
	return endpoint.FromConfigMap(configMap.Data)
}

// LogServicePod waits until the log service has one pod, which is ready. During a
// rollout, the Deployment's status may speak of a pod that is going.
func (c *Cluster) LogServicePod(ctx context.Context) (pod *corev1.Pod, err error) {
	err = Eventually(ctx, patience, "the log service's one pod to be ready", func(ctx context.Context) error {
		list, err := c.Kube.CoreV1().Pods(endpoint.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + LogService})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		pod = &list.Items[0]
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				return nil
			}
		}
		return fmt.Errorf("pod %q is %q", pod.Name, pod.Status.Phase)
	})
	return pod, err
}

// forwarding is the line of kubectl port-forward that says where it listens.
var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) -> \d+`)

// forwardLimit is what kubectl may take to connect.
const forwardLimit = 30 * time.Second

// The ports of the log service's pods: for pods, and for what API servers proxy.
const (
	LogPort        = 8443
	ProxiedLogPort = 8444
)

// LogClient is a client of a port of the log service from outside of the cluster, until
// ctx is done: what it connects to is the one replica that there is at the moment.
func (c *Cluster) LogClient(ctx context.Context, port int) (*http.Client, error) {
	e, err := c.LogEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	config, err := e.TLS()
	if err != nil {
		return nil, err
	}
	pod, err := c.LogServicePod(ctx)
	if err != nil {
		return nil, err
	}
	local, err := Forward(ctx, endpoint.Namespace, "pod/"+pod.Name, fmt.Sprint(":", port))
	if err != nil {
		return nil, err
	}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, local)
		},
	}}, nil
}

// Forward returns an address of this machine that leads to a port of what is in the
// cluster, until ctx is done: ":" and the port of a pod or a Service.
func Forward(ctx context.Context, namespace, what, port string) (string, error) {
	command := exec.CommandContext(ctx, "kubectl", "-n", namespace, "port-forward", "--address", "127.0.0.1", what, port)
	out, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}
	var stderr strings.Builder
	command.Stderr = &stderr
	if err := command.Start(); err != nil {
		return "", fmt.Errorf("running %q: %w", command.Args, err)
	}
	address := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if match := forwarding.FindStringSubmatch(lines.Text()); match != nil {
				address <- match[1]
			}
		}
		_ = command.Wait()
		close(address)
	}()
	select {
	case local, ok := <-address:
		if !ok {
			return "", fmt.Errorf("running %q: %w: %s", command.Args, errors.New("it ended"), strings.TrimSpace(stderr.String()))
		}
		return local, nil
	case <-time.After(forwardLimit):
		return "", errors.Join(fmt.Errorf("running %q: it isn't connected after %v", command.Args, forwardLimit), command.Process.Kill())
	}
}

// TokenOf is a token of a service account's, for an audience or, if that is empty,
// for the API server. It is bound to the pod, if there is one.
func (c *Cluster) TokenOf(ctx context.Context, namespace, account, audience string, pod *corev1.Pod) (string, error) {
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	made, err := c.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of service account %q in namespace %q: %w", account, namespace, err)
	}
	return made.Status.Token, nil
}
