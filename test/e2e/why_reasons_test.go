// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/why"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A question is what a person types after kubectl entrypointer why.
type question struct {
	kubeconfig string // that of the tests, unless it is set
	namespace  string
	args       []string
}

// reasonsOfTenants are the questions whose answers a tenant brings about.
var reasonsOfTenants = map[why.Reason]func(*testing.T) question{
	why.Reason(pod.Injected): func(t *testing.T) question {
		return aboutManifest(t, optedInNamespace(t), askingPod("app", busybox(t, "main", "true")))
	},
	why.NamespaceNotOptedIn: func(t *testing.T) question {
		return aboutManifest(t, plainNamespace(t), askingPod("app", busybox(t, "main", "true")))
	},
	why.NamespaceExcluded: func(t *testing.T) question {
		return aboutManifest(t, metav1.NamespaceSystem, askingPod("app", busybox(t, "main", "true")))
	},
	why.DoesNotAsk: func(t *testing.T) question {
		return aboutManifest(t, optedInNamespace(t), plainPod("app", busybox(t, "main", "true")))
	},
	why.OlderThanOptIn: func(t *testing.T) question {
		namespace := plainNamespace(t)
		createPod(t, namespace, askingPod("app", busybox(t, "main", forever...)))
		time.Sleep(1100 * time.Millisecond) // times of the API server are whole seconds
		_, err := annotate(t.Context(), namespace, `"true"`)
		require.NoError(t, err)
		waitUntilSelected(t, namespace, true)
		return question{namespace: namespace, args: []string{"app"}}
	},
	why.Reason(pod.NotOurs): func(t *testing.T) question {
		p := plainPod("app", busybox(t, "main", "true"))
		p.Annotations = map[string]string{"entrypointer.dev/timeout": "1h"}
		return aboutManifest(t, optedInNamespace(t), p)
	},
	why.Reason(pod.OptedOut): func(t *testing.T) question {
		p := plainPod("app", busybox(t, "main", "true"))
		p.Annotations = map[string]string{pod.InjectAnnotation: "false"}
		return aboutManifest(t, optedInNamespace(t), p)
	},
	why.Reason(pod.NothingToWrap): func(t *testing.T) question {
		return aboutManifest(t, optedInNamespace(t), askingPod("app", busybox(t, "istio-proxy", "true")))
	},
	why.Reason(pod.Windows): func(t *testing.T) question {
		p := askingPod("app", busybox(t, "main", "true"))
		p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
		return aboutManifest(t, optedInNamespace(t), p)
	},
	why.Reason(pod.MirrorPod): func(t *testing.T) question {
		p := askingPod("app", busybox(t, "main", "true"))
		p.Annotations[corev1.MirrorPodAnnotationKey] = "as the kubelet writes it"
		p.Spec.NodeName = "node" // without a node, the API server refuses a static pod's mirror
		return aboutManifest(t, optedInNamespace(t), p)
	},
	why.Refused: func(t *testing.T) question {
		p := askingPod("app", busybox(t, "main", "true"))
		p.Annotations["entrypointer.dev/timeout"] = "10 minutes"
		return aboutManifest(t, optedInNamespace(t), p)
	},
	why.RefusedByAnother: func(t *testing.T) question {
		p := askingPod("app", busybox(t, "main", "true"))
		p.Spec.PriorityClassName = "no-such-class"
		return aboutManifest(t, optedInNamespace(t), p)
	},
	why.Unexplained: func(t *testing.T) question {
		namespace := optedInNamespace(t)
		kubeconfig := withToken(t, reader(t, namespace, "creator", false))
		run(t, fmt.Sprintf("kubectl -n %s create role creator --verb=get,list,create --resource=pods && "+
			"kubectl -n %s create rolebinding creator --role=creator --serviceaccount=%s:creator", namespace, namespace, namespace))
		q := aboutManifest(t, namespace, plainPod("app", busybox(t, "main", "true")))
		q.kubeconfig = kubeconfig
		return q
	},
}

// reasonsOfOperators are the questions whose answers an operator brings about: by the
// configuration of the injector, or by its absence.
var reasonsOfOperators = map[why.Reason]func(*testing.T) question{
	why.Reason(pod.NotSelected): func(t *testing.T) question {
		configureForNow(t, "pod-owners", "Tekton")
		return aboutManifest(t, optedInNamespace(t), askingPod("app", busybox(t, "main", "true")))
	},
	why.Reason(pod.LookupWaived): func(t *testing.T) question {
		configureForNow(t, "failed-lookup", "admit")
		return aboutManifest(t, optedInNamespace(t), askingPod("app", unknownImage(t)))
	},
	why.Reason(pod.PartlyInjected): func(t *testing.T) question {
		configureForNow(t, "failed-lookup", "admit")
		return aboutManifest(t, optedInNamespace(t), askingPod("app", unknownImage(t), busybox(t, "other", "true")))
	},
	why.InjectorDown: func(t *testing.T) question {
		namespace := optedInNamespace(t)
		takeDown(t)
		return aboutManifest(t, namespace, askingPod("app", busybox(t, "main", "true")))
	},
	why.LabelMissing: func(t *testing.T) question {
		namespace := plainNamespace(t)
		takeDown(t)
		_, err := annotate(t.Context(), namespace, `"true"`)
		require.NoError(t, err)
		return aboutManifest(t, namespace, askingPod("app", busybox(t, "main", "true")))
	},
}

// unknownImage is a container whose command is that of an image that no registry has.
func unknownImage(t *testing.T) corev1.Container {
	t.Helper()
	return corev1.Container{Name: "unknown", Image: image(t, "no-such-image-of-entrypointer:1")}
}

// aboutManifest asks about a pod that is written in a file.
func aboutManifest(t *testing.T, namespace string, p *corev1.Pod) question {
	t.Helper()
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	manifest, err := json.Marshal(p)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "pod.json")
	require.NoError(t, os.WriteFile(path, manifest, 0o600))
	return question{namespace: namespace, args: []string{"-f", path}}
}

// A reason without a question here would never be seen to be given.
func TestEachReasonOfWhyHasAQuestionThatItAnswers(t *testing.T) {
	t.Parallel()
	var all []why.Reason
	for reason := range why.Meanings() {
		all = append(all, reason)
	}
	asked := slices.AppendSeq(slices.Collect(maps.Keys(reasonsOfTenants)), maps.Keys(reasonsOfOperators))
	require.ElementsMatch(t, all, asked)
}

func TestWhyGivesTheReasonsThatATenantBringsAbout(t *testing.T) {
	t.Parallel()
	kubectl := newPlugin(t)
	for reason, ask := range reasonsOfTenants {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			kubectl.requireReason(t, reason, ask(t))
		})
	}
}

// They concern the whole cluster, one after the other.
func TestWhyGivesTheReasonsThatAnOperatorBringsAbout(t *testing.T) {
	kubectl := newPlugin(t)
	for reason, ask := range reasonsOfOperators {
		t.Run(string(reason), func(t *testing.T) {
			kubectl.requireReason(t, reason, ask(t))
		})
	}
}

// requireReason asks until the reason is given, as JSON and in words: what the injector and
// the API server decide by may reach them late.
func (p plugin) requireReason(t *testing.T, reason why.Reason, q question) {
	t.Helper()
	wantCode := isNotSo
	if reason == why.Reason(pod.Injected) {
		wantCode = isSo
	}
	eventually(t, time.Minute, "the reason "+string(reason), func() error {
		answer, code := p.asksWhy(t, q.kubeconfig, q.namespace, q.args...)
		var given []why.Reason
		for _, d := range append(answer.Pods, answer.Now) {
			if d != nil {
				given = append(given, d.Reason)
			}
		}
		if !slices.Contains(given, reason) || code != wantCode {
			return fmt.Errorf("the reasons are %v, and the exit code is %d", given, code)
		}
		return nil
	})

	command := p.Command(t.Context(), append([]string{"why", "-n", q.namespace}, q.args...)...)
	if q.kubeconfig != "" {
		command.Env = append(command.Env, "KUBECONFIG="+q.kubeconfig)
	}
	words, err := command.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		require.Equal(t, wantCode, failed.ExitCode(), string(failed.Stderr))
	} else {
		require.NoError(t, err)
	}
	for other, is := range why.Meanings() {
		if other == reason {
			require.Contains(t, strings.Join(strings.Fields(string(words)), " "), is)
		}
	}
}
