// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"iter"

	"github.com/google/go-containerregistry/pkg/authn"
)

// Credentials yields what the pod of a query may show to a registry, in the
// order in which to try it. An error in between means that there may have been
// more; the next ones are still worth a try. What such an error says is shown
// to whoever created the pod.
//
// [github.com/entrypointer/entrypointer/pkg/credentials] finds those of pods.
type Credentials func(ctx context.Context, query Query, repository authn.Resource) iter.Seq2[authn.Authenticator, error]
