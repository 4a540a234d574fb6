// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// removePods stops and removes all pods through the container runtime, which
// releases their addresses, network interfaces and iptables rules.
func removePods(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to %q: %w", socket, err)
	}
	defer connection.Close()
	runtime := cri.NewRuntimeServiceClient(connection)
	pods, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, pod := range pods.GetItems() {
		group.Go(func() error {
			if _, err := runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: pod.GetId()}); err != nil {
				return fmt.Errorf("stopping the pod %s/%s: %w", pod.GetMetadata().GetNamespace(), pod.GetMetadata().GetName(), err)
			}
			_, err := runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: pod.GetId()})
			return err
		})
	}
	return group.Wait()
}
