// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/k8schain"
	"k8s.io/client-go/kubernetes"
)

// PodKeychains finds credentials where the kubelet would: the pod's
// imagePullSecrets, its service account's, then the clouds' own keychains.
func PodKeychains(client kubernetes.Interface) Keychains {
	return func(ctx context.Context, query Query) (authn.Keychain, error) {
		keychain, err := k8schain.New(ctx, client, k8schain.Options{
			Namespace:          query.Namespace,
			ServiceAccountName: query.ServiceAccount,
			ImagePullSecrets:   query.PullSecrets,
		})
		if err != nil {
			return nil, fmt.Errorf("reading pull secrets of service account %q in namespace %q: %w",
				query.ServiceAccount, query.Namespace, err)
		}
		return keychain, nil
	}
}
