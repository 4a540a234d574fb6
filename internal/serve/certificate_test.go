// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/cert"
)

func newPair(t *testing.T) *tls.Certificate {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("webhook", nil, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	return &pair
}

func TestTheFormerCertificateIsServedUntilAPIServersKnowTheNewOne(t *testing.T) {
	missing := errors.New("there is none")
	first, second, third := newPair(t), newPair(t), newPair(t)
	clock := time.Now()
	var there *tls.Certificate
	c := &Certificates{
		Read: func() (*tls.Certificate, error) {
			if there == nil {
				return nil, missing
			}
			return there, nil
		},
		now: func() time.Time { return clock },
	}
	for _, step := range []struct {
		what  string
		after time.Duration
		there *tls.Certificate
		want  *tls.Certificate
	}{
		{"there is none yet", 0, nil, nil},
		{"the first", 0, first, first},
		{"somebody deletes it", time.Hour, nil, first},
		{"a new one", time.Second, second, first},
		{"soon after", Overlap - time.Second, second, first},
		{"yet another", 0, third, first},
		{"soon after that", Overlap - time.Second, third, first},
		{"late enough", time.Second, third, third},
		{"a new one, when the former has expired", 2 * 365 * 24 * time.Hour, second, second},
	} {
		clock, there = clock.Add(step.after), step.there
		got, err := c.Get(nil)
		if step.want == nil {
			require.ErrorIs(t, err, missing, step.what)
			continue
		}
		require.NoError(t, err, step.what)
		require.True(t, same(step.want, got), step.what)
	}
	there = nil
	clock = clock.Add(24 * time.Hour)
	_, err := c.Get(nil)
	require.ErrorIs(t, err, missing, "the last has expired as well")
}
