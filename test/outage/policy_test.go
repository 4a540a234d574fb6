//go:build outage

// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/tektonpods"
)

const (
	digest      = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	copierImage = "registry.example.test/copier@" + digest
)

// ourImage is another name for it.
const ourImage = "mirror.example.test/copier@" + digest

var injector = &pod.Injector{CopierImage: copierImage}

// leastWrapped is the number of Tekton's examples whose pods are plain.
const leastWrapped = 71

func (s *apiServer) dryRun(ctx context.Context, t testing.TB, namespace string, p *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	p = p.DeepCopy()
	p.Namespace = namespace
	return s.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func TestThePolicyMakesOfEveryExampleOfTektonsWhatPkgPodMakes(t *testing.T) {
	s := startAPIServer(t)
	accounts := map[string]bool{"default": true}
	s.installPolicyAlone(t)
	examples := tektonpods.Examples(t)
	s.awaitPolicy(t)
	for name, flags := range tektonpods.Flags {
		if testing.Short() && name != "defaults" {
			continue
		}
		var lefts []string
		sames, invalid := 0, 0
		for _, example := range examples {
			before, reason := example.Build(t, flags)
			if reason != "" {
				continue
			}
			before.OwnerReferences[0].UID = "1"
			if account := before.Spec.ServiceAccountName; !accounts[account] && account != "" {
				accounts[account] = true
				for _, ns := range []string{"plain", "tenant"} {
					_, err := s.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
					require.NoError(t, err)
				}
			}
			verdict, err := s.compare(t, before)
			switch {
			case apierrors.IsInvalid(err): // Tekton's reconciler replaces variables, in the names of volumes, too
				invalid++
			case err != nil:
				require.NoError(t, err, example.Name)
			case verdict == left:
				lefts = append(lefts, example.Name)
			case verdict == same:
				sames++
			default:
				require.Fail(t, "different", "%s: %s", example.Name, verdict)
			}
		}
		t.Logf("%s: %d as pkg/pod, %d invalid, left to the webhook: %v", name, sames, invalid, lefts)
		require.GreaterOrEqual(t, sames, leastWrapped)
		require.Equal(t, []string{"no-ci/windows-node-affinity.yaml", "no-ci/windows-node-selectors.yaml"}, lefts)
		require.LessOrEqual(t, invalid, 1)
	}
}

// installPolicyAlone creates config/outage without the webhooks, a namespace that didn't opt
// in, and one that did.
func (s *apiServer) installPolicyAlone(t testing.TB) {
	t.Helper()
	s.namespace(t, "plain", nil, nil, "default")
	s.namespace(t, "tenant", optedIn(pod.OwnedPods), optedIn(pod.OwnedPods), "default")
	s.namespace(t, "entrypointer-system", nil, nil)
	s.installOutage(t, copierImage)
}

// awaitPolicy returns when the API server wraps pods.
func (s *apiServer) awaitPolicy(t testing.TB) {
	t.Helper()
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		made, err := s.dryRun(ctx, t, "tenant", taskRunPod(1))
		if err == nil && !isWrapped(made) {
			err = errors.New("unwrapped")
		}
		return err
	})
}

// What the policy has made of a pod, if it isn't a difference.
const (
	same = "as pkg/pod makes it"
	left = "left to the webhook"
)

// compare says what the policy makes of a pod, beside what pkg/pod makes of it. The error is
// the API server's without a policy.
func (s *apiServer) compare(t testing.TB, before *corev1.Pod) (verdict string, _ error) {
	t.Helper()
	// As the API server has it when it calls webhooks.
	defaulted, err := s.dryRun(t.Context(), t, "plain", before)
	if err != nil {
		return "", err
	}
	made, err := s.dryRun(t.Context(), t, "tenant", before)
	require.NoError(t, err)
	made.Name, made.Namespace = defaulted.Name, defaulted.Namespace
	switch made.Annotations[pod.StatusAnnotation] {
	case pod.Undecided:
		defaulted.Annotations = marked(defaulted.Annotations, pod.Undecided)
		if text(t, made) != text(t, defaulted) {
			return "undecided, and changed: " + text(t, made), nil
		}
		return left, nil
	case pod.InjectedByPolicy:
	default:
		return "of an unknown status: " + text(t, made), nil
	}
	result, refusal := injector.Inject(t.Context(), "tenant", defaulted)
	if refusal != nil {
		return "wrapped, and refused by pkg/pod: " + refusal.Error(), nil //nolint:nilerr // it is the verdict
	}
	want := result.Pod.DeepCopy()
	want.Annotations = marked(want.Annotations, pod.InjectedByPolicy)
	if text(t, made) != text(t, want) {
		return fmt.Sprintf("pkg/pod makes\n%s\nand the policy\n%s", text(t, want), text(t, made)), nil
	}
	again, err := injector.Inject(t.Context(), "tenant", made)
	require.NoError(t, err)
	want.Annotations[pod.StatusAnnotation] = result.Pod.Annotations[pod.StatusAnnotation]
	if text(t, again.Pod) != text(t, want) {
		return "changed by pkg/pod: " + text(t, again.Pod), nil
	}
	return same, nil
}

// marked are annotations with those that the policy adds.
func marked(annotations map[string]string, status string) map[string]string {
	all := map[string]string{pod.MayWaitAnnotation: "true"}
	maps.Copy(all, annotations)
	all[pod.StatusAnnotation] = status
	return all
}

// text is a pod as JSON, without what each creation makes anew.
func text(t testing.TB, p *corev1.Pod) string {
	t.Helper()
	p = p.DeepCopy()
	p.Namespace, p.UID, p.CreationTimestamp, p.ManagedFields, p.ResourceVersion = "", "", metav1.Time{}, nil, ""
	encoded, err := json.MarshalIndent(p, "", " ")
	require.NoError(t, err)
	for _, v := range p.Spec.Volumes {
		if v.Projected != nil {
			encoded = bytes.ReplaceAll(encoded, []byte(v.Name), []byte("token"))
		}
	}
	return string(encoded)
}
