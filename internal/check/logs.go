// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/objects"
)

const (
	logsNamespace = "entrypointer-logs"
	showLogs      = "kubectl -n " + logsNamespace + " describe pods -l app.kubernetes.io/name=logs"
	// The alerts of docs/operations.md have the same bounds.
	fewBytes, fewInodes = 1e9, 1e5
)

// noLogs is the answer of checks where there is no log service.
func noLogs() answer { return skipped("config/logs isn't installed") }

// hasLogs reports whether the log service is installed. Of those who may not look, the
// checks say so.
func (q *inquiry) hasLogs(ctx context.Context) bool {
	return !apierrors.IsNotFound(q.get(ctx, "/apis/apps/v1/namespaces/"+logsNamespace+"/deployments/logs", &metav1.PartialObjectMetadata{}))
}

func checkLogReplicas(ctx context.Context, q *inquiry) answer {
	if !q.hasLogs(ctx) {
		return noLogs()
	}
	return q.available(ctx, logsNamespace, "logs", showLogs)
}

func checkAPIService(ctx context.Context, q *inquiry) answer {
	var service struct {
		Status struct{ Conditions []condition }
	}
	err := q.get(ctx, "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.logs.entrypointer.dev", &service)
	switch {
	case apierrors.IsNotFound(err):
		return noLogs()
	case err != nil:
		return hinderedAnswer(err, "the state of the APIService", "get apiservices")
	}
	for _, c := range service.Status.Conditions {
		if c.Type == "Available" && c.Status == "True" {
			return passed("")
		}
		if c.Type == "Available" {
			return found(Failed, "logs can't be read, and no namespace can be deleted: "+c.Reason+": "+c.Message, showLogs)
		}
	}
	return found(Failed, "the API server hasn't looked for the log service yet", showLogs)
}

// logMetrics reads the metrics of the log service's replicas.
func (q *inquiry) logMetrics(ctx context.Context) ([]metrics, error) {
	return q.logs.read(ctx, q, logsNamespace, "logs", "8080")
}

// checkLogStorage looks for what the alerts of docs/operations.md warn of.
func checkLogStorage(ctx context.Context, q *inquiry) (a answer) {
	if !q.hasLogs(ctx) {
		return noLogs()
	}
	replicas, err := q.logMetrics(ctx)
	if err != nil {
		a.findings = append(a.findings, hindered(err, "the state of the storage", rightToScrape+logsNamespace))
	} else if len(replicas) == 0 {
		return noReplica()
	}
	for _, m := range replicas {
		// A bucket has no limits to measure.
		for _, free := range m.gauge("entrypointer_logs_storage_free_bytes") {
			a.note = fmt.Sprintf("%.1f GB are free", free.value/1e9)
			if !(free.value >= fewBytes) { // or it isn't a number
				a.add(Warning, a.note, "kubectl -n "+logsNamespace+" edit persistentvolumeclaim logs")
			}
		}
		for _, free := range m.gauge("entrypointer_logs_storage_free_inodes") {
			if !(free.value >= fewInodes) {
				a.add(Warning, fmt.Sprintf("%.0f inodes are free", free.value), "kubectl -n "+logsNamespace+" edit persistentvolumeclaim logs")
			}
		}
		for _, postponed := range a.gauge(m, "entrypointer_logs_keeper_postponed_streams") {
			if postponed.value > 0 {
				a.add(Warning, fmt.Sprintf("the deletion of %.0f streams is postponed: the clock of the storage may be wrong", postponed.value), objects.Command("kubectl -n "+logsNamespace+" logs %s", m.pod))
			}
		}
		for _, faulty := range a.gauge(m, "entrypointer_logs_config_faulty") {
			if faulty.value > 0 {
				a.add(Failed, "ConfigMap config-logs can't be read, and the former configuration is in force", objects.Command("kubectl -n "+logsNamespace+" logs %s", m.pod))
			}
		}
	}
	return a
}
