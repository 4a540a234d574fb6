// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"crypto/sha256"
	"io"
)

// Lookuper answers queries. Implementations are safe for concurrent use.
type Lookuper interface {
	// Lookup returns what the image says. The Image is shared and must not be
	// changed. An error is an *Error, which names a Reason.
	Lookup(ctx context.Context, query Query) (*Image, error)
}

// Query asks what an image would run, on behalf of one pod.
type Query struct {
	// Image is the reference as the pod's author wrote it.
	Image string
	// Namespace is the pod's namespace.
	Namespace string
	// ServiceAccount is the pod's service account; empty means "default".
	ServiceAccount string
	// PullSecrets are the names of the pod's imagePullSecrets, in order. No more
	// than [MaxPullSecrets] are looked at.
	PullSecrets []string
}

// key identifies the question: two equal keys deserve the same answer. It is a
// hash, so that nothing that a tenant wrote is kept for its sake.
func (q Query) key() string {
	hash := sha256.New()
	for _, part := range append([]string{q.Image, q.Namespace, q.ServiceAccount}, q.PullSecrets...) {
		// The separator can't occur in any part.
		_, _ = io.WriteString(hash, part+"\x00")
	}
	return string(hash.Sum(nil))
}

// Image is what a registry says of an image.
type Image struct {
	// Digest is the digest of what the reference led to: an index or a manifest.
	// It is empty if the Source is Static.
	Digest string
	// Pinned is the reference with Digest appended, in the author's words:
	// "busybox:1.37" becomes "busybox:1.37@sha256:...".
	Pinned string
	// Configs has one entry for each platform that runs Linux, at least one.
	Configs []Config
	// Source is where this answer came from.
	Source Source
}

// Source says what an answer has cost. Metrics use the same words.
type Source string

// The sources of an answer.
const (
	Static     Source = "Static"     // the configuration says it; nobody was asked
	Remembered Source = "Remembered" // the same asker got it seconds ago
	Cached     Source = "Cached"     // the registry opened the manifest; what it says was known
	Fetched    Source = "Fetched"    // the registry sent it
	Opened     Source = "Opened"     // the registry doesn't answer; the same asker opened this digest within hours
)

// Config is the command line that an image carries for one platform, and how it wants to
// be stopped.
type Config struct {
	// Platform is os/architecture or os/architecture/variant, as in "linux/arm64/v8".
	Platform   string
	Entrypoint []string
	Cmd        []string
	// StopSignal is the image's STOPSIGNAL by the name that [ParseStopSignal] gives it,
	// such as SIGQUIT, and empty if the image names none, or what is no signal.
	StopSignal string
}
