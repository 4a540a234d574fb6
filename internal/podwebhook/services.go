// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// servicesPatience limits the time for which the start waits for the addresses of
// services.
const servicesPatience = 10 * time.Second

// serviceAddresses returns the addresses of the cluster's services, to which lookups
// don't connect: the API server's address, which every container knows, and the ranges
// that the API server publishes from Kubernetes 1.33 on. An error means that the ranges
// are unknown.
func serviceAddresses(ctx context.Context, client kubernetes.Interface) (addresses []netip.Prefix, err error) {
	if own, err := netip.ParseAddr(os.Getenv("KUBERNETES_SERVICE_HOST")); err == nil {
		addresses = append(addresses, netip.PrefixFrom(own, own.BitLen()))
	}
	ctx, cancel := context.WithTimeout(ctx, servicesPatience)
	defer cancel()
	ranges, err := client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return addresses, fmt.Errorf("reading ServiceCIDRs: %w", err)
	}
	for _, one := range ranges.Items {
		for _, cidr := range one.Spec.CIDRs {
			if prefix, err := netip.ParsePrefix(cidr); err == nil {
				addresses = append(addresses, prefix)
			}
		}
	}
	return addresses, nil
}
