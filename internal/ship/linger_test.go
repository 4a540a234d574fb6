// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/ring"
)

// newPatientChain is newChain with a service that lets streams linger as long as possible,
// and counts the requests that store bytes.
func newPatientChain(t *testing.T, sources secretSources) (c *chain, sent *atomic.Int64) {
	t.Helper()
	sent = &atomic.Int64{}
	return newChain(t, sources, func(w http.ResponseWriter, r *http.Request) bool {
		if sends(r) {
			sent.Add(1)
		}
		w.Header().Set(retries.LingerHeader, "30")
		return false
	}), sent
}

// waitFor waits until the service has some bytes of stdout.
func (c *chain) waitFor(length int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.reader.Progress(ring.Stdout).At == int64(length) }, 20*time.Second, time.Millisecond)
}

func TestTheServiceSaysForHowLongAStreamMayLinger(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"": retries.ShortestLinger, "0": retries.ShortestLinger, "-5": retries.ShortestLinger, "soon": retries.ShortestLinger, "1.5": retries.ShortestLinger,
		"7": 7 * time.Second, "30": retries.LongestLinger, "3600": retries.LongestLinger, "9223372036854775807": retries.LongestLinger,
	} {
		require.Equal(t, want, parseLinger(value), value)
	}
}

func TestALingeringStreamIsSentAfterASilenceAndAtItsEnd(t *testing.T) {
	t.Parallel()
	c, sent := newPatientChain(t, secretSources{})
	began := time.Now()
	c.ship(func() {
		c.print([]byte("first\n"))
		c.waitFor(6)
		require.Less(t, time.Since(began), 10*time.Second, "it comes after a silence")
		for range 5 {
			c.print([]byte("later\n"))
			time.Sleep(2 * retries.ShortestLinger / 5)
		}
		time.Sleep(2 * retries.ShortestLinger)
		require.EqualValues(t, 6, c.reader.Progress(ring.Stdout).At, "these wait for more")
	})
	require.Less(t, time.Since(began), 20*time.Second, "the end doesn't wait")
	require.EqualValues(t, 2, sent.Load())
	require.Zero(t, c.requireAll([]byte("first\nlater\nlater\nlater\nlater\nlater\n")))
}

func TestALingeringStreamIsSentWhenAPartIsFull(t *testing.T) {
	t.Parallel()
	c, _ := newPatientChain(t, secretSources{})
	printed := numbered(6 + batchSize)
	c.ship(func() {
		c.print(printed[:6])
		c.waitFor(6)
		c.print(printed[6:1000])
		time.Sleep(2 * retries.ShortestLinger)
		require.EqualValues(t, 6, c.reader.Progress(ring.Stdout).At)
		c.print(printed[1000:])
		c.waitFor(len(printed))
	})
	require.Zero(t, c.requireAll(printed))
}

func TestALingeringStreamIsSentBeforeItsTimesAreForgotten(t *testing.T) {
	t.Parallel()
	c, _ := newPatientChain(t, secretSources{})
	printed := numbered(6 + ring.MaxMarks/partsInRing)
	c.ship(func() {
		c.print(printed[:6])
		c.waitFor(6)
		for at := 6; at < len(printed); at++ {
			c.print(printed[at : at+1])
			time.Sleep(time.Millisecond) // each has a time of its own
		}
		require.Eventually(t, func() bool { return c.reader.Progress(ring.Stdout).At > 6 }, 20*time.Second, time.Millisecond)
	})
	require.Zero(t, c.requireAll(printed))
}

func TestAStreamIsSentAtOnceAgainIfTheServiceNoLongerLetsItLinger(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	c := newChain(t, secretSources{}, func(w http.ResponseWriter, _ *http.Request) bool {
		if !followed.Swap(true) {
			w.Header().Set(retries.LingerHeader, "2")
		}
		return false
	})
	c.shipper.senders[ring.Stdout].linger = 2 * time.Second
	c.ship(func() {
		for at := range 4 {
			c.print([]byte{'a' + byte(at)})
			c.waitFor(at + 1)
		}
	})
	require.Equal(t, retries.ShortestLinger, c.shipper.senders[ring.Stdout].linger)
	require.Zero(t, c.requireAll([]byte("abcd")))
}

// A file without a witness in the supervisor changes twice while bytes linger.
func TestASecretThatIsReplacedWhileBytesLingerIsMasked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("open barley"), 0o600))
	c, sent := newPatientChain(t, secretSources{paths: []string{file}})
	c.ship(func() {
		c.print([]byte("first\n"))
		c.waitFor(6)
		require.NoError(t, os.WriteFile(file, []byte("open sesame"), 0o600))
		c.print([]byte("it says open sesame\n"))
		time.Sleep(4 * longestRest)
		require.NoError(t, os.WriteFile(file, []byte("open rye"), 0o600))
	})
	require.EqualValues(t, 2, sent.Load())
	require.Zero(t, c.requireAll([]byte("first\nit says ***********\n")))
}
