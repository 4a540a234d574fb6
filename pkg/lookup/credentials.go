// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"iter"

	"github.com/google/go-containerregistry/pkg/authn"
)

// Credentials yields the credentials that the pod of a query may show to a registry, in
// the order in which to try them. An error between them means that some credentials may
// be missing; the next ones are still worth a try. The text of such an error is shown to
// the creator of the pod.
//
// [github.com/entrypointer/entrypointer/pkg/credentials] finds the credentials of pods.
type Credentials func(ctx context.Context, query Query, repository authn.Resource) iter.Seq2[authn.Authenticator, error]
