// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certresources "knative.dev/pkg/webhook/certificates/resources"
)

// newCA is one of those that knative.dev/pkg makes for a webhook.
func newCA(t *testing.T, until time.Time) []byte {
	t.Helper()
	_, _, ca, err := certresources.CreateCerts(t.Context(), "entrypointer-webhook", "entrypointer-system", until)
	require.NoError(t, err)
	return ca
}

func TestTheFormerCAStaysInTheBundleUntilTheNextChange(t *testing.T) {
	valid := time.Now().Add(time.Hour)
	first, second, third := newCA(t, valid), newCA(t, valid), newCA(t, valid)
	both := slices.Concat(second, first)
	for what, test := range map[string]struct{ ca, current, want []byte }{
		"there is none yet":  {first, nil, first},
		"as it is":           {first, first, first},
		"a new one":          {second, first, both},
		"as it is, with two": {second, both, both},
		"yet another":        {third, both, slices.Concat(third, second)},
		"what is no CA":      {second, []byte("none"), second},
		"one that expired":   {second, newCA(t, time.Now().Add(-time.Hour)), second},
	} {
		require.Equal(t, string(test.want), string(bundleOf(test.ca, test.current)), what)
	}
}
