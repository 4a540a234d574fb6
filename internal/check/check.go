// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package check finds out, for the kubectl plugin, whether a cluster can have entrypointer,
// and whether what it has of it works. It asks the API server, with the rights of kubectl's
// user, and compares the objects of the cluster with the manifests of this release. It
// changes nothing: what it creates, it creates by dry runs.
package check

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/version"
)

// A State says what became of a check.
type State string

// The states, from the best to the worst.
const (
	Passed  State = "Passed"
	Skipped State = "Skipped" // it doesn't apply here
	Warning State = "Warning"
	Unknown State = "Unknown" // it couldn't be found out
	Failed  State = "Failed"
)

var severity = map[State]int{Passed: 0, Skipped: 1, Warning: 2, Unknown: 3, Failed: 4}

// The comments on the types of the document, and on their fields, are the descriptions in
// docs/cli.schema.json, which go test ./cmd/kubectl-entrypointer -run Schema -update writes.

// A Report is the document of kubectl entrypointer check.
type Report struct {
	// Whether the cluster has entrypointer. It is absent if the user may not know. If the
	// cluster has not, the checks are those before an install.
	Installed *bool `json:"installed,omitempty"`
	// The checks, in the order of docs/cli.md.
	Checks []Result `json:"checks"`
}

// A Result is what a check found out.
type Result struct {
	// What the check is about.
	Category string `json:"category"`
	// What should be true.
	Check string `json:"check"`
	// Passed, Skipped (the check doesn't apply), Warning, Unknown (it couldn't be found out) or
	// Failed: that of the worst finding.
	State State `json:"state"`
	// What was found where nothing is wrong.
	Note string `json:"note,omitempty"`
	// What is wrong, or couldn't be found out.
	Findings []Finding `json:"findings,omitempty"`
	// The URL of the page that explains the check, and what to do.
	Page string `json:"page"`
}

// A Finding is one thing that is wrong, or that couldn't be found out.
type Finding struct {
	// Warning, Unknown or Failed.
	State State `json:"state"`
	// What was found.
	Message string `json:"message"`
	// The command that mends it, or shows more. It is absent if there is no such command.
	Next string `json:"next,omitempty"`

	lacksRight bool // it couldn't be found out because the user lacks a right
}

// Options are the choices of the user.
type Options struct {
	// Before asks what an install needs, though the cluster has entrypointer.
	Before bool
	// Registry is where ko pushes the images, "" if it isn't known.
	Registry string
	// OnlyNamespace has only the namespace of the client looked at, and not all.
	OnlyNamespace bool
}

// pages is where the documentation is.
const pages = "https://github.com/entrypointer/entrypointer/blob/main/docs/"

// patience bounds one run of all checks.
const patience = time.Minute

// atOnce bounds the checks that run at the same time.
const atOnce = 8

// A check is a question about a cluster.
type check struct {
	category string
	// about is what should be true.
	about string
	// page is the name of a page in docs, and an anchor.
	page string
	run  func(context.Context, *inquiry) answer
}

// An answer is what a check has found.
type answer struct {
	note     string
	skipped  bool
	findings []Finding
}

// The first questions are asked before an install as well, and the second ones then only.
var (
	always = []check{
		{"Kubernetes", "the API server's version is supported", "compatibility.md#what-a-cluster-needs", checkVersion},
		{"Kubernetes", "the nodes can run the supervisor", "compatibility.md#what-a-cluster-needs", checkNodes},
	}
	before = []check{
		{"Install", "the API server accepts the objects of config/webhook from you", "quickstart.md", checkInstall},
		{"Install", "the registry takes images from you", "quickstart.md", checkRegistry},
	}
	after = []check{
		{"Injector", "its namespace exists", "operations.md#what-runs", checkNamespace},
		{"Injector", "all replicas are available", "operations.md#what-runs", checkReplicas},
		{"Injector", "its objects are those of this release", "upgrading.md", checkPart("webhook")},
		{"Injector", "all replicas have the version of this plugin", "upgrading.md", checkVersions},
		{"Injector", "the configuration is in force as it is written", "configuration.md", checkConfiguration},
		{"Webhooks", "the API server trusts the certificate", "troubleshooting.md#there-is-no-pod", checkCertificates},
		{"Webhooks", "the API server reaches the webhook", "operations.md#an-outage-of-the-injector", checkReach},
		{"Delivery", "auto: its objects are those of this release", "upgrading.md", checkPart("auto")},
		{"Delivery", "auto: the nodes can mount images", "metrics.md#delivery-auto", checkAuto},
		{"Delivery", "claim: its objects are those of this release", "upgrading.md", checkPart("claims")},
		{"Delivery", "claim: the claims are ready", "claims.md", checkClaims},
		{"Outage", "its objects are those of this release", "upgrading.md", checkPart("outage")},
		{"Outage", "TaskRuns don't fail", "operations.md#taskruns-in-an-outage", checkOutage},
		{"Log service", "its objects are those of this release", "upgrading.md", checkPart("logs")},
		{"Log service", "all replicas are available", "operating-logs.md#outages", checkLogReplicas},
		{"Log service", "the API server passes on the requests of readers", "operating-logs.md#namespaces-that-stay-terminating", checkAPIService},
		{"Log service", "its storage has space", "operating-logs.md#what-is-kept", checkLogStorage},
		{"Namespaces", "their labels follow their annotations", "troubleshooting.md#without-the-plugin", checkLabels},
		{"Namespaces", "the pods of those that opted in are wrapped", "cli.md#the-answers", checkPods},
	}
)

// Run runs all checks.
func Run(ctx context.Context, client objects.Client, options Options) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q := &inquiry{Client: client, options: options, own: version.Own()}
	installed, err := q.isInstalled(ctx)
	if err != nil {
		return nil, err
	}
	checks := append([]check{}, always...)
	if (installed == nil || *installed) && !options.Before {
		checks = append(checks, after...)
	} else {
		checks = append(checks, before...)
	}
	report := &Report{Installed: installed, Checks: make([]Result, len(checks))}
	var running errgroup.Group
	running.SetLimit(atOnce)
	for at, c := range checks {
		running.Go(func() error {
			report.Checks[at] = c.result(c.run(ctx, q))
			return nil
		})
	}
	return report, running.Wait()
}

func (c *check) result(a answer) Result {
	return Result{Category: c.category, Check: c.about, State: a.state(), Note: a.note, Findings: a.findings, Page: pages + c.page}
}

// state is that of the worst finding.
func (a *answer) state() State {
	worst := Passed
	if a.skipped {
		worst = Skipped
	}
	for _, f := range a.findings {
		if severity[f.State] > severity[worst] {
			worst = f.State
		}
	}
	return worst
}

// Count returns how many checks have a state.
func (r *Report) Count(state State) (n int) {
	for _, result := range r.Checks {
		if result.State == state {
			n++
		}
	}
	return n
}

// passed is the answer of a check that has found nothing wrong.
func passed(note string) answer { return answer{note: note} }

// skipped is the answer of a check that doesn't apply, and says why.
func skipped(why string) answer { return answer{note: why, skipped: true} }

// found is the answer of a check with one finding.
func found(state State, message, next string) answer {
	return answer{findings: []Finding{{State: state, Message: message, Next: next}}}
}

func (a *answer) add(state State, message, next string) {
	a.findings = append(a.findings, Finding{State: state, Message: message, Next: next})
}
