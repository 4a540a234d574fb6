// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/objects"
)

// showInjector is the command that shows the pods of the injector.
const showInjector = "kubectl -n " + objects.InjectorNamespace + " describe pods -l app.kubernetes.io/name=injector"

func checkNamespace(ctx context.Context, q *inquiry) answer {
	var ns metav1.PartialObjectMetadata
	err := q.get(ctx, "/api/v1/namespaces/"+objects.InjectorNamespace, &ns)
	switch {
	case apierrors.IsNotFound(err):
		return found(Failed, "namespace "+objects.InjectorNamespace+" doesn't exist, and the webhook does: pods of namespaces that opted in are refused", q.applies(ctx, "webhook"))
	case err != nil:
		return hinderedAnswer(err, "namespace "+objects.InjectorNamespace, "get namespaces")
	case ns.DeletionTimestamp != nil:
		return found(Failed, "namespace "+objects.InjectorNamespace+" is being deleted since "+ns.DeletionTimestamp.UTC().String(), "kubectl get namespace "+objects.InjectorNamespace+" -o yaml")
	}
	return passed(objects.InjectorNamespace)
}

func checkReplicas(ctx context.Context, q *inquiry) answer {
	return q.available(ctx, objects.InjectorNamespace, "injector", showInjector)
}

// available compares the replicas of a Deployment with those that it should have.
func (q *inquiry) available(ctx context.Context, namespace, name, next string) answer {
	var d struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct{ Replicas int32 }
		Status            struct {
			ObservedGeneration                 int64
			UpdatedReplicas, AvailableReplicas int32
		}
	}
	err := q.get(ctx, "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+name, &d)
	switch status := d.Status; {
	case err != nil:
		return hinderedAnswer(err, "Deployment "+name, "get deployments -n "+namespace)
	case d.Spec.Replicas == 0:
		return found(Failed, "Deployment "+name+" is scaled to no replicas", "kubectl -n "+namespace+" scale deployment/"+name+" --replicas=2")
	case status.AvailableReplicas == 0:
		return found(Failed, fmt.Sprintf("no replica is available, of %d", d.Spec.Replicas), next)
	case status.AvailableReplicas < d.Spec.Replicas:
		return found(Warning, fmt.Sprintf("%d of %d replicas are available", status.AvailableReplicas, d.Spec.Replicas), next)
	case status.ObservedGeneration < d.Generation || status.UpdatedReplicas < d.Spec.Replicas:
		return found(Warning, fmt.Sprintf("an update has replaced %d of %d replicas", status.UpdatedReplicas, d.Spec.Replicas), "kubectl -n "+namespace+" rollout status deployment/"+name)
	}
	return passed(fmt.Sprintf("%d of %d", d.Status.AvailableReplicas, d.Spec.Replicas))
}

// noReplica is the answer of checks that ask the replicas.
func noReplica() answer { return skipped("no replica runs") }

// injectorMetrics reads the metrics of the injector's replicas.
func (q *inquiry) injectorMetrics(ctx context.Context) ([]metrics, error) {
	return q.injectors.read(ctx, q, objects.InjectorNamespace, "injector", "9090")
}

// checkConfiguration reads the ConfigMap as the injector does, and asks the replicas
// whether they have it in force.
func checkConfiguration(ctx context.Context, q *inquiry) (a answer) {
	var cm corev1.ConfigMap
	edit := "kubectl -n " + objects.InjectorNamespace + " edit configmap " + config.Name
	err := q.get(ctx, "/api/v1/namespaces/"+objects.InjectorNamespace+"/configmaps/"+config.Name, &cm)
	switch {
	case apierrors.IsNotFound(err):
		a.note = "there is no ConfigMap: the default, or what was in force before it was deleted"
	case err != nil:
		return hinderedAnswer(err, "the configuration", "get configmaps -n "+objects.InjectorNamespace)
	default:
		if _, err := config.FromConfigMap(&cm); err != nil {
			for line := range strings.Lines(err.Error()) {
				a.add(Failed, strings.TrimSpace(line), edit)
			}
			return a
		}
	}
	replicas, err := q.injectorMetrics(ctx)
	if err != nil {
		return answer{findings: []Finding{hindered(err, "whether the configuration is in force", rightToScrape+objects.InjectorNamespace)}}
	}
	if len(replicas) == 0 {
		return noReplica()
	}
	for _, m := range replicas {
		for _, faulty := range a.gauge(m, "entrypointer_config_faulty_keys") {
			if faulty.value > 0 {
				a.add(Failed, fmt.Sprintf("%.0f keys aren't in force in pod %s", faulty.value, m.pod), edit)
			}
		}
	}
	return a
}
