// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// keptFor is how long an answer is kept.
	keptFor = 10 * time.Second
	// mostKept bounds the answers that are kept, each of maxAnswer bytes at most.
	mostKept = 500
)

// Kept keeps the answers of supervisors for 10 seconds, for who asks the same again and again.
// Its zero value is empty. It can be used by several Readers at once, of the same user.
type Kept struct {
	// Most bounds the answers, 500 by default.
	Most int

	mu      sync.Mutex
	answers map[start]answer
}

// A start is one start of a container.
type start struct {
	pod       types.UID
	container string
	restarts  int32
	since     time.Time
}

// An answer is what a supervisor has said, or why it hasn't.
type answer struct {
	supervisor *Supervisor
	err        error
	until      time.Time
}

// ask returns a kept answer about a container that runs, or asks its supervisor. That a
// container has ended isn't kept, nor that there was no time to wait for an answer: others may
// have taken it.
func (k *Kept) ask(ctx context.Context, r *Reader, p *corev1.Pod, c *Container) (*Supervisor, error) {
	of := start{p.UID, c.Name, c.Restarts, c.Since.UTC()}
	k.mu.Lock()
	kept, is := k.answers[of]
	k.mu.Unlock()
	if is && time.Now().Before(kept.until) {
		return kept.supervisor, kept.err
	}
	supervisor, err := r.ask(ctx, p.Name, c.Name)
	if errors.Is(err, errEnded) || ctx.Err() != nil {
		return supervisor, err
	}
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.answers, func(_ start, a answer) bool { return !now.Before(a.until) })
	if k.answers == nil {
		k.answers = map[start]answer{}
	}
	if len(k.answers) < cmp.Or(k.Most, mostKept) {
		k.answers[of] = answer{supervisor, err, now.Add(keptFor)}
	}
	return supervisor, err
}
