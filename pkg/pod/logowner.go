// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// logLabels returns the labels by which the logs of a pod are found, as KEY=VALUE: those of
// the pod, its trace, and those that its controller stands for.
func logLabels(pod *corev1.Pod) (list []string) {
	for _, key := range loglabels.OfPods() {
		if value := pod.Labels[key]; value != "" {
			list = append(list, key+"="+value)
		}
	}
	if parent, _, found := spanContext(pod, taskRunContext); found {
		list = append(list, loglabels.TraceParent+"="+parent.String())
	}
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return list
	}
	add := func(key, name string) {
		// The log service takes no others. An object can have a longer name.
		if name != "" && len(validation.IsValidLabelValue(name)) == 0 {
			list = append(list, key+"="+name)
		}
	}
	group, _, _ := strings.Cut(controller.APIVersion, "/")
	switch group + "/" + controller.Kind {
	case "apps/ReplicaSet":
		add(loglabels.Deployment, deploymentOf(controller.Name, pod.Labels[podTemplateHash]))
		add(loglabels.ReplicaSet, controller.Name)
	case "apps/StatefulSet":
		add(loglabels.StatefulSet, controller.Name)
	case "apps/DaemonSet":
		add(loglabels.DaemonSet, controller.Name)
	case "batch/Job":
		add(loglabels.Job, controller.Name)
		add(loglabels.CronJob, cronJobOf(controller.Name))
	}
	return list
}

// podTemplateHash is the label by which a Deployment tells the pods of its ReplicaSets apart.
const podTemplateHash = "pod-template-hash"

// deploymentOf returns the name of the Deployment of a ReplicaSet, "" for a ReplicaSet of its
// own: a Deployment names its ReplicaSets NAME-HASH, and labels their pods with the hash.
func deploymentOf(replicaSet, hash string) string {
	name, is := strings.CutSuffix(replicaSet, "-"+hash)
	if hash == "" || !is {
		return ""
	}
	return name
}

// scheduledName is the name of a Job of a CronJob: NAME-MINUTES, with the time for which it
// was scheduled, in Unix minutes. They have eight digits until 2160.
var scheduledName = regexp.MustCompile(`^(.+)-([1-9][0-9]{7})$`)

// earliestSchedule is in May 2021, before all releases of Kubernetes that are supported. The
// dates of this century (20261126) are below.
const earliestSchedule = 27_000_000

// cronJobOf returns the name of the CronJob of a Job, "" for a Job of its own. Nothing else
// in the pod tells them apart, so a Job that somebody names in this way counts as one of a
// CronJob.
func cronJobOf(job string) string {
	parts := scheduledName.FindStringSubmatch(job)
	if parts == nil {
		return ""
	}
	if minutes, err := strconv.Atoi(parts[2]); err != nil || minutes < earliestSchedule {
		return ""
	}
	return parts[1]
}
