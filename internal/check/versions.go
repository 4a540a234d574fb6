// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/config"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/version"
)

// Versions is the document of kubectl entrypointer version.
type Versions struct {
	// The version of this plugin.
	Plugin string `json:"plugin"`
	// The programs of entrypointer in the cluster. It is absent with --client.
	Programs []Program `json:"programs,omitempty"`
	// In what the versions differ, and which is older.
	Warnings []string `json:"warnings,omitempty"`
}

// A Program is one that runs in the cluster.
type Program struct {
	// Injector or log service.
	Name string `json:"name"`
	// Whether it is installed. It is absent if the user may not know.
	Installed *bool `json:"installed,omitempty"`
	// The version that was applied, as the label app.kubernetes.io/version of the Deployment
	// says. It is absent if that can't be read, or if ko has applied a checkout.
	Applied string `json:"applied,omitempty"`
	// The versions of the replicas, as they say themselves.
	Replicas []Replicas `json:"replicas,omitempty"`
	// Why the version of a replica is unknown.
	Unknown []string `json:"unknown,omitempty"`

	findings []Finding // what Unknown says
}

// Replicas are those of one version.
type Replicas struct {
	// Their version.
	Version string `json:"version"`
	// Their number.
	Count int `json:"count"`
}

// The metrics that tell the versions.
const (
	injectorInfo = "entrypointer_build_info"
	logsInfo     = "entrypointer_logs_build_info"
)

// OwnVersion returns the version of this program alone.
func OwnVersion() *Versions { return &Versions{Plugin: version.Own()} }

// AskVersions compares the version of this program with those of the cluster.
func AskVersions(ctx context.Context, client objects.Client) *Versions {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q := &inquiry{Client: client, own: version.Own()}
	return q.versions(ctx)
}

// versions finds out which versions run, and compares them.
func (q *inquiry) versions(ctx context.Context) *Versions {
	v := &Versions{Plugin: q.own, Programs: []Program{
		q.program(ctx, "injector", objects.InjectorNamespace, "injector", injectorInfo, q.injectorMetrics),
		q.program(ctx, "log service", logsNamespace, "logs", logsInfo, q.logMetrics),
	}}
	all := v.running()
	if len(all) > 1 {
		v.Warnings = append(v.Warnings, "there are replicas of "+strings.Join(all, ", ")+": an update is under way, or a part was left out of it")
	}
	for _, running := range all {
		if version.Same(running, q.own) {
			continue
		}
		which := ""
		switch older, known := version.Older(running, q.own); {
		case known && older:
			which = ", which is newer"
		case known:
			which = ", which is older"
		}
		v.Warnings = append(v.Warnings, "the cluster has "+running+", and this plugin is "+q.own+which+": what it says of objects and answers may be another release's")
	}
	return v
}

// running returns the versions of all replicas, and what was applied where they don't tell.
func (v *Versions) running() []string {
	all := map[string]bool{}
	for _, p := range v.Programs {
		for _, r := range p.Replicas {
			all[r.Version] = true
		}
		if len(p.Replicas) == 0 && p.Applied != "" {
			all[p.Applied] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// program finds out which versions of a program run.
func (q *inquiry) program(ctx context.Context, title, namespace, name, info string, scrape func(context.Context) ([]metrics, error)) Program {
	p := Program{Name: title}
	var deployment metav1.PartialObjectMetadata
	err := q.get(ctx, "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+name, &deployment)
	switch {
	case apierrors.IsNotFound(err):
		p.Installed = new(false)
		return p
	case err == nil:
		p.Installed = new(true)
		p.Applied = deployment.Labels[config.VersionLabel]
	}
	replicas, err := scrape(ctx)
	if err != nil {
		p.findings = append(p.findings, hindered(err, "the version of a replica of the "+title, rightToScrape+namespace))
	}
	var told answer
	count := map[string]int{}
	for _, m := range replicas {
		for _, sample := range told.gauge(m, info) {
			count[sample.labels["version"]]++
		}
	}
	for _, v := range slices.Sorted(maps.Keys(count)) {
		p.Replicas = append(p.Replicas, Replicas{v, count[v]})
	}
	p.findings = append(p.findings, told.findings...)
	for _, f := range p.findings {
		p.Unknown = append(p.Unknown, f.Message)
	}
	return p
}

// checkVersions compares the versions of the injector and of the log service with this
// program's.
func checkVersions(ctx context.Context, q *inquiry) (a answer) {
	v := q.versions(ctx)
	for _, p := range v.Programs {
		a.findings = append(a.findings, p.findings...)
	}
	a.note = strings.Join(v.running(), ", ")
	if a.note == "" && len(a.findings) == 0 {
		return noReplica()
	}
	for at, warning := range v.Warnings {
		next := ""
		if at == 0 && len(v.running()) > 1 {
			next = q.applies(ctx, "webhook")
		}
		a.add(Warning, warning, next)
	}
	return a
}

// AreKnown reports whether each program tells its version, or isn't installed.
func (v *Versions) AreKnown() bool {
	return !slices.ContainsFunc(v.Programs, func(p Program) bool { return len(p.Unknown) > 0 && p.Applied == "" })
}

// Print writes the versions for people.
func (v *Versions) Print(w io.Writer) error {
	var b strings.Builder
	line := func(name, says string) { fmt.Fprintf(&b, "%-12s %s\n", name, printable.Line(says)) }
	line("plugin", v.Plugin)
	for _, p := range v.Programs {
		line(p.Name, p.says())
		for _, unknown := range p.Unknown {
			line("", unknown)
		}
	}
	for _, warning := range v.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s\n", printable.Line(warning))
	}
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

// says is a line about the replicas of a program.
func (p *Program) says() string {
	var versions []string
	for _, r := range p.Replicas {
		noun := "replicas"
		if r.Count == 1 {
			noun = "replica"
		}
		versions = append(versions, fmt.Sprintf("%s (%d %s)", r.Version, r.Count, noun))
	}
	switch {
	case p.Installed != nil && !*p.Installed:
		return "isn't installed"
	case len(versions) > 0:
		return strings.Join(versions, ", ")
	case p.Applied != "":
		return p.Applied + ", as its Deployment says"
	case len(p.Unknown) > 0:
		return "unknown"
	}
	return "no replica runs"
}
