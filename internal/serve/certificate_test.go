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

// validIn returns a certificate that is valid for an hour, from so long after now on.
func validIn(t *testing.T, d time.Duration, now time.Time) *tls.Certificate {
	t.Helper()
	pair := newPair(t)
	leaf := *pair.Leaf
	leaf.NotBefore, leaf.NotAfter = now.Add(d), now.Add(d+time.Hour)
	pair.Leaf = &leaf
	return pair
}

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

// No API server accepts one that has expired, or that was made by a clock that was ahead.
func TestACertificateThatIsNotValidNowIsNotServedWhileAnotherOneIs(t *testing.T) {
	now := time.Now()
	valid := validIn(t, -time.Minute, now)
	for what, next := range map[string]*tls.Certificate{
		"it has expired":   validIn(t, -2*time.Hour, now),
		"it is tomorrow's": validIn(t, 30*time.Minute, now),
	} {
		t.Run(what, func(t *testing.T) {
			clock, there := now, valid
			c := &Certificates{Read: func() (*tls.Certificate, error) { return there, nil }, now: func() time.Time { return clock }}
			get := func() *tls.Certificate {
				got, err := c.Get(nil)
				require.NoError(t, err)
				return got
			}
			require.True(t, same(valid, get()))
			there = next
			for range 3 {
				clock = clock.Add(Overlap)
				require.True(t, same(valid, get()), "API servers accept the former one")
			}
			clock = now.Add(time.Hour)
			require.True(t, same(next, get()), "there is no better one")
			if now.Before(next.Leaf.NotBefore) {
				return
			}
			there = validIn(t, 0, clock)
			require.True(t, same(there, get()), "at once, since nobody accepts the former one")
		})
	}
}
