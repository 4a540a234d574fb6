// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/entrypointer/entrypointer/internal/version"
)

// Reason names why pods get image volumes under delivery "auto", or why they don't. The
// log, the metric and the events use the same words.
type Reason string

// The reasons. All but Proven mean the init container.
const (
	Proven          Reason = "Proven"          // a canary has run on each system
	NotConfigured   Reason = "NotConfigured"   // neither the operator nor a namespace asks for auto
	NotPermitted    Reason = "NotPermitted"    // config/auto isn't installed
	NodesUnknown    Reason = "NodesUnknown"    // the nodes aren't listed yet
	APIServerTooOld Reason = "APIServerTooOld" // the API server doesn't support image volumes, or its version isn't known yet
	NoNodes         Reason = "NoNodes"         // no node could prove anything
	NodeUnfit       Reason = "NodeUnfit"       // the versions of a node don't support image volumes
	CanaryFailed    Reason = "CanaryFailed"    // a canary didn't run, or failed
	Unproven        Reason = "Unproven"        // a canary is to run, or runs
)

// A Verdict reports whether pods get image volumes under delivery "auto".
type Verdict struct {
	Reason  Reason
	Message string
}

// ImageVolumes reports whether pods get image volumes.
func (v Verdict) ImageVolumes() bool { return v.Reason == Proven }

// String describes the delivery of pods, and the reason.
func (v Verdict) String() string {
	if v.Reason == NotConfigured {
		return "delivery auto: " + v.Message
	}
	gets := "pods get the init container"
	if v.ImageVolumes() {
		gets = "pods get image volumes"
	}
	return fmt.Sprintf("delivery auto: %s: %s", gets, v.Message)
}

// evidence is the input of a verdict.
type evidence struct {
	images     Images
	configured bool            // the operator's delivery is auto
	asking     map[string]bool // namespaces whose own delivery is auto
	permitted  bool
	synced     bool
	server     string // version of the API server, empty if it isn't known
	nodes      map[string]node
	proofs     proofs
}

func (e *evidence) wanted() bool { return e.configured || len(e.asking) > 0 }

// A question asks whether a system can mount images. A system of at least one node raises
// it.
type question struct {
	id string
	system
	ready []string // the nodes that a canary may run on, by name
	nodes []string // all of them
}

// questions returns the questions of the nodes whose versions support image volumes,
// answered or not, by id, and the names of the other nodes.
func (e *evidence) questions() (asked map[string]*question, unfit []string) {
	asked = map[string]*question{}
	// A cluster has thousands of nodes, but few systems. An unfit one has no question.
	of := map[system]*question{}
	for _, name := range slices.Sorted(maps.Keys(e.nodes)) {
		n := e.nodes[name]
		if n.apart {
			continue
		}
		q, known := of[n.system]
		if !known && n.lacks() == "" {
			q = &question{id: n.question(e.images), system: n.system}
			asked[q.id] = q
		}
		of[n.system] = q
		if q == nil {
			unfit = append(unfit, name)
			continue
		}
		q.nodes = append(q.nodes, name)
		if n.ready {
			q.ready = append(q.ready, name)
		}
	}
	return asked, unfit
}

// open returns the questions without an answer.
func open(asked map[string]*question, known proofs) (unanswered []*question) {
	for id, q := range asked {
		if known[id].Result != proven {
			unanswered = append(unanswered, q)
		}
	}
	slices.SortFunc(unanswered, func(a, b *question) int { return cmp.Compare(a.nodes[0], b.nodes[0]) })
	return unanswered
}

// judge returns the verdict. Unknown facts never count as proven.
func (e *evidence) judge() Verdict {
	switch {
	case !e.wanted():
		return Verdict{NotConfigured, "neither the operator nor a namespace asks for auto"}
	case !e.permitted:
		return Verdict{NotPermitted, "the injector may not look at nodes: " + version.Applies(version.Own(), "auto")}
	case !e.synced:
		return Verdict{NodesUnknown, "the API server hasn't listed the nodes yet"}
	case e.server == "":
		return Verdict{APIServerTooOld, "the API server's version isn't known yet"}
	}
	if why := older("API server", e.server, leastKubernetes); why != "" {
		return Verdict{APIServerTooOld, why}
	}
	asked, unfit := e.questions()
	if len(unfit) > 0 {
		return Verdict{NodeUnfit, fmt.Sprintf("node %q%s: %s", unfit[0], andOthers(unfit), e.nodes[unfit[0]].lacks())}
	}
	if len(asked) == 0 {
		return Verdict{NoNodes, "there is no schedulable Linux node"}
	}
	unanswered := open(asked, e.proofs)
	for _, q := range unanswered {
		if p := e.proofs[q.id]; p.Result == failed {
			return Verdict{CanaryFailed, fmt.Sprintf("a canary for node %q%s (%s) proved nothing: %s", q.nodes[0], andOthers(q.nodes), q.system, p.Message)}
		}
	}
	if len(unanswered) > 0 {
		q := unanswered[0]
		return Verdict{Unproven, fmt.Sprintf("no canary has run yet for node %q%s (%s)", q.nodes[0], andOthers(q.nodes), q.system)}
	}
	return Verdict{Proven, "every kind of node has run the supervisor from an image volume"}
}

func andOthers(names []string) string {
	switch others := len(names) - 1; others {
	case 0:
		return ""
	case 1:
		return " and 1 other"
	default:
		return fmt.Sprintf(" and %d others", others)
	}
}
