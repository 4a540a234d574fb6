// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cutOff drops what one injector sends to the API server, in the network namespace of its
// pod. What the API server sends to it arrives, and is answered.
func cutOff(ctx context.Context, e *environment) (healer, error) {
	pods, err := injectors(ctx, e)
	if err != nil {
		return nil, err
	}
	processes, err := processesOf(ctx, pods[0], injectorProgram)
	if err != nil {
		return nil, err
	}
	api, err := e.cluster.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking for the address of the API server: %w", err)
	}
	rule := func(how string) string {
		return fmt.Sprintf("nsenter --net=/proc/self/fd/3 iptables -w %s OUTPUT -p tcp -d %s --dport %d -j DROP", how, api.Spec.ClusterIP, api.Spec.Ports[0].Port)
	}
	// By its file, the shell finds the namespace also when the process has ended.
	namespace, err := processes[0].open("ns/net")
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	return guarded(ctx, rule("-I"), rule("-D"), namespace)
}
