// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"strings"
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
	// PullSecrets are the names of the pod's imagePullSecrets, in order.
	PullSecrets []string
}

// key identifies the question: two equal keys deserve the same answer. The
// separator can't occur in any part.
func (q Query) key() string {
	return strings.Join(append([]string{q.Image, q.Namespace, q.ServiceAccount}, q.PullSecrets...), "\x00")
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
)

// Config is the command line that an image carries for one platform.
type Config struct {
	// Platform is os/architecture or os/architecture/variant, as in "linux/arm64/v8".
	Platform   string
	Entrypoint []string
	Cmd        []string
}
