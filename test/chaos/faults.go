// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/serve"
)

type (
	// A healer ends a fault that doesn't heal by itself.
	healer = func(context.Context) error
	// inject lets a fault happen. It returns nil if the fault heals by itself. What it
	// returns is called also if it fails.
	inject = func(context.Context, *environment) (healer, error)
)

// A fault is something that fails.
type fault struct {
	name, what string
	// refusals of pods that must be wrapped are due, because no injector can be asked.
	refusals bool
	// taskRuns run all the same, wrapped by the API server, where refusals are due.
	taskRuns bool
	// cut requests are due: those that an injector is answering when it is killed, or that reach
	// it before the Service has dropped it.
	cut bool
	// lookups by tag that are refused are due, because nobody knows what the tag means.
	lookups bool
	// unwrapped pods are due, because nothing says any more that they must be wrapped.
	unwrapped bool
	// everybody notices, because it is the cluster that fails.
	everybody bool
	// long ones take minutes.
	long bool
	// watch is how long it has to be watched at least.
	watch time.Duration
	// stage prepares the cluster before the load begins. What it returns is called after the
	// load has ended, also if it fails.
	stage func(context.Context, *environment) (healer, error)
	// inject is nil if nothing happens.
	inject inject
	// settled returns an error as long as something has to heal that the load doesn't show.
	settled func(context.Context, *environment) error
}

// part is the part of the cluster that fails: what its name begins with.
func (f fault) part() string {
	part, _, _ := strings.Cut(f.name, "-")
	return part
}

// failedTaskRuns says whether TaskRuns that failed are due.
func (f fault) failedTaskRuns() bool { return f.refusals && !f.taskRuns || f.cut || f.everybody }

// faults are all, in the order in which they happen. The last one installs the product anew.
var faults = []fault{
	{name: "none", what: "nothing fails"},
	{name: "injectors-killed", what: "all injectors are killed at once", refusals: true, inject: killInjectors},
	{name: "injectors-gone", what: "the injectors are scaled to zero, and later up again", refusals: true, inject: removeInjectors},
	{name: "injectors-gone-outage", what: "the injectors are scaled to zero, and later up again, while `config/outage` is installed and the namespaces have no options", refusals: true, taskRuns: true, watch: untilTaskRuns, stage: installOutage, inject: removeInjectors},
	{name: "injectors-one-by-one", what: "one injector is killed after the other", cut: true, inject: killInjectorsInTurn},
	{name: "injectors-evicted", what: "the injectors are evicted, as by a drain of their nodes, which are cordoned if there are several", long: true, inject: evictInjectors},
	{name: "leader-killed", what: "the leader among the injectors is killed when it has granted rights in some of many new namespaces", cut: true, stage: tidyUpAfterLeader, inject: killLeader, settled: requireGrants},
	{name: "replica-cut-off", what: "one injector reaches the API server no more, but is reached by it", inject: cutOff},
	{name: "upgrade", what: "another release of the injector is rolled out, and later this one again", long: true, stage: buildOtherRelease, inject: upgrade, settled: requireOwnRelease},
	{name: "certificates-deleted", what: "the Secret of the certificates is deleted", watch: untilNextCertificate, inject: deleteCertificates},
	{name: "certificates-rotated", what: "somebody writes other certificates into the Secret", watch: untilNextCertificate, inject: replaceCertificates(0, 48*time.Hour)},
	{name: "certificates-expired", what: "the certificates in the Secret have expired", watch: untilNextCertificate, inject: replaceCertificates(-48*time.Hour, -time.Hour)},
	{name: "certificates-of-tomorrow", what: "the certificates in the Secret aren't valid yet, as by a clock that was ahead", watch: untilNextCertificate, inject: replaceCertificates(24*time.Hour, 72*time.Hour)},
	{name: "ca-bundles-deleted", what: "the CA bundles are removed from all webhook configurations", refusals: true, inject: removeCABundles},
	{name: "foreign-entry", what: "somebody adds an entry to two webhook configurations of ours, whose server doesn't exist, and one injector is killed after the other", cut: true, inject: addForeignEntries},
	{name: "webhooks-deleted", what: "all webhook configurations are deleted, and later created anew without CA bundles", refusals: true, unwrapped: true, inject: deleteWebhooks},
	{name: "log-service-killed", what: "the log service is killed", inject: killLogService},
	{name: "log-service-gone", what: "the log service is scaled to zero, and later to one", inject: removeLogService},
	{name: "log-service-stalled", what: "the log service is stopped by SIGSTOP, and goes on later", inject: stallLogService},
	{name: "log-service-slow", what: "the log service is stopped for nine tenths of each second", inject: slowLogService},
	{name: "log-store-refuses", what: "the log service can't create files on its volume", inject: refuseStore},
	{name: "log-disk-full", what: "the volume of the log service is full", long: true, stage: useSmallVolume, inject: fillVolume},
	{name: "lookups-stalled", what: "the registry of the images that are looked up doesn't answer", lookups: true, stage: openEverywhere, inject: behave(doesNotAnswer)},
	{name: "lookups-slow", what: "this registry takes half a second for each answer", inject: behave(isSlow)},
	{name: "lookups-lying", what: "this registry answers with another digest, and with a page instead of a manifest", lookups: true, stage: openEverywhere, inject: behave(lies)},
	{name: "registry-stalled", what: "the registry of the cluster's images doesn't answer", everybody: true, inject: stallComponent("registry")},
	{name: "kubelet-killed", what: "the kubelet is killed, and later started", everybody: true, inject: killComponent("kubelet")},
	{name: "containerd-killed", what: "containerd is killed, and later started", everybody: true, inject: killComponent("containerd")},
	{name: "etcd-stalled", what: "etcd is stopped by SIGSTOP, and goes on later", everybody: true, inject: stallComponent("etcd")},
	{name: "etcd-killed", what: "etcd is killed, and later started", everybody: true, inject: killComponent("etcd")},
	{name: "api-server-killed", what: "the API server is killed, and later started", everybody: true, inject: killComponent("kube-apiserver")},
	{name: "namespace-deleted", what: "the injector's namespace is deleted, and the product installed anew", refusals: true, unwrapped: true, long: true, inject: deleteNamespace},
}

// untilTaskRuns is when some TaskRuns have come: the load has one each ten seconds.
const untilTaskRuns = 25 * time.Second

// untilNextCertificate is when another certificate is served, and somewhat longer.
const untilNextCertificate = serve.Overlap + 15*time.Second
