// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// ProofsName is the ConfigMap, in the injector's namespace, that stores proofs across
// restarts, and for all replicas.
const ProofsName = "delivery-proofs"

// result is the result of a canary.
type result string

const (
	started result = "Started"
	proven  result = "Proven"
	failed  result = "Failed"
)

// A proof is the answer to a question, or the number of tries so far.
type proof struct {
	System system `json:"system"`
	Images Images `json:"images"`
	Result result `json:"result"`
	// At is the time when the last canary was started or ended.
	At time.Time `json:"at"`
	// Canaries is the number of canaries that were started.
	Canaries int    `json:"canaries"`
	Message  string `json:"message,omitempty"`
}

// due returns the earliest time for the next canary.
func (p proof) due() time.Time {
	if p.Canaries == 0 {
		return time.Time{}
	}
	return p.At.Add(backoff(p.Canaries))
}

const (
	firstPause   = 30 * time.Second
	longestPause = time.Hour
)

// backoff returns the pause after the nth canary that proved nothing.
func backoff(n int) time.Duration {
	pause := firstPause
	for range n - 1 {
		if pause *= 2; pause >= longestPause {
			return longestPause
		}
	}
	return pause
}

// proofs are keyed by the ids of questions.
type proofs map[string]proof

const (
	// maxProofs bounds the ConfigMap, because systems come and go.
	maxProofs = 64
	// maxProof is the longest text of a proof, in bytes. Texts that data makes are
	// shorter.
	maxProof = 16 << 10
	// maxCanaries caps the count: a larger number has the same effect.
	maxCanaries = 1 << 20
)

// readProofs parses the ConfigMap. An invalid proof is skipped.
func readProofs(data map[string]string) proofs {
	known := proofs{}
	for question, text := range data {
		var p proof
		if err := json.Unmarshal([]byte(text), &p); err == nil && len(text) <= maxProof {
			p.Canaries = min(max(p.Canaries, 0), maxCanaries)
			known[question] = p
		}
	}
	return known
}

// until removes times after latest: a wrong clock or a manual edit can cause them, and
// they would delay the next canary until then.
func (p proofs) until(latest time.Time) proofs {
	for question, kept := range p {
		if kept.At.After(latest) {
			kept.At = time.Time{}
			p[question] = kept
		}
	}
	return p
}

// data returns the content for the ConfigMap: the proofs of questions that are asked now,
// answers before tries, and the newest of the other proofs.
func (p proofs) data(asked map[string]bool) map[string]string {
	rank := func(question string) int {
		switch {
		case !asked[question]:
			return 2
		case p[question].Result != proven:
			return 1
		}
		return 0
	}
	order := slices.SortedFunc(maps.Keys(p), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), p[b].At.Compare(p[a].At))
	})
	data := map[string]string{}
	for _, question := range order[:min(len(order), maxProofs)] {
		kept := p[question]
		s := &kept.System
		s.Kubelet, s.Runtime, s.OSImage, s.Architecture = bounded(s.Kubelet), bounded(s.Runtime), bounded(s.OSImage), bounded(s.Architecture)
		text, err := json.Marshal(kept)
		if err != nil {
			continue // a time out of range, from a manual edit
		}
		data[question] = string(text)
	}
	return data
}
