// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"k8s.io/apimachinery/pkg/types"
)

// fieldManager is the one by which objects are applied, in dry runs.
const fieldManager = "kubectl-entrypointer-check"

// checkInstall applies the objects of config/webhook in a dry run, as far as they can be
// without the others: an object in a namespace needs the namespace, and a binding its role.
// For these, the API server says whether the user may create them.
func checkInstall(ctx context.Context, q *inquiry) (a answer) {
	manifests, err := manifestsOf("webhook")
	if err != nil {
		return found(Unknown, err.Error(), "")
	}
	tried, asked := 0, map[string]bool{}
	for _, m := range manifests {
		right := m.right("create")
		switch isTried := m.kind.cluster && m.Kind != "ClusterRoleBinding"; {
		case isTried:
			tried++
			if err := q.apply(ctx, &m); err != nil {
				a.add(Failed, fmt.Sprintf("%s: %v", m.String(), err), "kubectl auth can-i "+right)
			}
		case !asked[right]:
			asked[right] = true
			may, err := q.may(ctx, &m)
			if err != nil {
				a.findings = append(a.findings, hindered(err, "whether you may "+right, "create selfsubjectaccessreviews"))
			} else if !may {
				a.add(Failed, "you may not "+right, "kubectl auth can-i "+right)
			}
		}
	}
	a.note = fmt.Sprintf("%d objects by a dry run, %d rights", tried, len(asked))
	return a
}

// apply applies an object by a dry run.
func (q *inquiry) apply(ctx context.Context, m *manifest) error {
	body, err := json.Marshal(m.object)
	if err != nil {
		return err
	}
	request := q.REST.Patch(types.ApplyPatchType).AbsPath(m.path()).
		Param("fieldManager", fieldManager).Param("force", "true")
	return dryRun(request, body).SetHeader("Content-Type", string(types.ApplyPatchType)).Do(ctx).Error()
}

// may asks whether the user may create an object.
func (q *inquiry) may(ctx context.Context, m *manifest) (bool, error) {
	group, _, _ := strings.Cut(strings.TrimPrefix(m.kind.path, "/apis/"), "/")
	if strings.HasPrefix(m.kind.path, "/api/") {
		group = ""
	}
	review := map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": "create", "group": group, "resource": m.kind.plural, "namespace": m.Namespace,
		}},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	var answered struct{ Status struct{ Allowed bool } }
	err = q.send(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body, &answered)
	return answered.Status.Allowed, err
}

// checkRegistry begins an upload to the registry, and cancels it.
func checkRegistry(ctx context.Context, q *inquiry) answer {
	registry := q.options.Registry
	switch registry {
	case "":
		return skipped("the registry is named by --registry, or by KO_DOCKER_REPO as for ko")
	case "ko.local", "kind.local":
		return skipped("ko loads the images without a registry: " + registry)
	}
	repository, err := name.NewRepository(strings.TrimSuffix(registry, "/") + "/injector")
	if err != nil {
		return found(Failed, fmt.Sprintf("reading the registry %q: %v", registry, err), "")
	}
	within := roundTripper(func(r *http.Request) (*http.Response, error) {
		return remote.DefaultTransport.RoundTrip(r.WithContext(ctx))
	})
	if err := remote.CheckPushPermission(repository.Tag("latest"), authn.DefaultKeychain, within); err != nil {
		next := ""
		if _, answered := errors.AsType[*transport.Error](err); answered {
			next = "docker login " + repository.RegistryStr()
		}
		return found(Failed, fmt.Sprintf("beginning an upload to %s: %v", repository, err), next)
	}
	return passed(registry)
}

// A roundTripper sends requests by a function.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (send roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return send(r) }
