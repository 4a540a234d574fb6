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
	// Lookup returns the facts about the image. The Image is shared and must not be
	// changed. An error is an *Error, which names a Reason.
	Lookup(ctx context.Context, query Query) (*Image, error)
}

// Query asks for an image's command line, on behalf of one pod.
type Query struct {
	// Image is the reference as the pod's author wrote it.
	Image string
	// Namespace is the pod's namespace.
	Namespace string
	// ServiceAccount is the pod's service account; empty means "default".
	ServiceAccount string
	// PullSecrets are the names of the pod's imagePullSecrets, in order. At most
	// [MaxPullSecrets] are used.
	PullSecrets []string
}

// key identifies the query: queries with equal keys have the same answer. It is a hash,
// so that no text of a tenant is kept.
func (q Query) key() string {
	hash := sha256.New()
	for _, part := range append([]string{q.Image, q.Namespace, q.ServiceAccount}, q.PullSecrets...) {
		// The separator can't occur in any part.
		_, _ = io.WriteString(hash, part+"\x00")
	}
	return string(hash.Sum(nil))
}

// Image holds the facts about an image.
type Image struct {
	// Digest is the digest of the index or manifest to which the reference led. It is
	// empty if the Source is Static.
	Digest string
	// Pinned is the reference as its author wrote it, with Digest appended:
	// "busybox:1.37" becomes "busybox:1.37@sha256:...".
	Pinned string
	// Configs has one entry for each platform that runs Linux, at least one.
	Configs []Config
	// Source is the source of this answer.
	Source Source
}

// Source names the source of an answer, by its cost. Metrics use the same words.
type Source string

// The sources of an answer.
const (
	Static     Source = "Static"     // the configuration has the answer; no registry was asked
	Remembered Source = "Remembered" // the same asker got the answer seconds ago
	Cached     Source = "Cached"     // the registry opened the manifest; its content was cached
	Fetched    Source = "Fetched"    // the registry sent the content
	Opened     Source = "Opened"     // the registry doesn't answer; the same asker opened this digest within hours
)

// Config is the command line and the stop signal of an image for one platform.
type Config struct {
	// Platform is os/architecture or os/architecture/variant, as in "linux/arm64/v8".
	Platform   string
	Entrypoint []string
	Cmd        []string
	// StopSignal is the image's STOPSIGNAL by the name that [ParseStopSignal] returns,
	// such as SIGQUIT. It is empty if the image has none, or an invalid one.
	StopSignal string
}
