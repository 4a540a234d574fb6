// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// grantsPolicy is the ValidatingAdmissionPolicy that confines grants.
const grantsPolicy = "grants.entrypointer.dev"

// CheckConfinement checks whether the policies confine the injector
// (config/webhook/210-confine-injector.yaml). They name the injector's service account,
// so in an installation with other names they have no effect, unnoticed. CheckConfinement
// sends a dry-run request that the first policy forbids: a grant in the injector's own
// namespace.
func CheckConfinement(ctx context.Context, client kubernetes.Interface, own string) error {
	wanted, err := json.Marshal(grantOf(metav1.OwnerReference{}, own, own))
	if err != nil {
		return fmt.Errorf("encoding RoleBinding %q: %w", GrantName, err)
	}
	_, err = client.RbacV1().RoleBindings(own).Patch(ctx, GrantName, types.ApplyPatchType, wanted,
		metav1.PatchOptions{FieldManager: fieldManager, Force: new(true), DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return fmt.Errorf("the policies that should confine the injector have no effect: the injector could grant itself the secrets of namespace %q; "+
			"install config/webhook under its own names, or rename the service account in config/webhook/210-confine-injector.yaml as well", own)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), grantsPolicy):
		return nil
	default:
		return fmt.Errorf("checking whether policies confine the injector, by a RoleBinding in namespace %q that should be refused by %s: %w", own, grantsPolicy, err)
	}
}
