// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// While a masked file doesn't respond, the shipper itself has no failure.
func TestALossAndAMissingExplanationNameTheFileThatDoesNotRespond(t *testing.T) {
	const failure = `reading "/creds/token" hangs`
	w, _ := newRing(t)
	p, clusterLog := newPipe(t)
	message := filepath.Join(t.TempDir(), "message")
	c := &Capture{ring: w, shipper: &shipperProcess{}, witness: &witness{failure: failure}, message: message, failed: true}
	c.pipes[ring.Stderr] = &pipe{original: clusterLog}
	w.Write(ring.Stdout, make([]byte, 2*ring.MinCapacity))

	c.reportLoss(time.Now())
	line := make([]byte, 1000)
	n, err := unix.Read(p.read, line)
	require.NoError(t, err)
	require.Contains(t, string(line[:n]), failure)

	c.explainAbsence()
	text, err := os.ReadFile(message)
	require.NoError(t, err)
	require.Contains(t, string(text), failure)
}

func TestTheDeliveryIncludesTheTerminationMessage(t *testing.T) {
	w, service := newRing(t)
	c := &Capture{ring: w, message: "message", failed: true}
	c.shipper = &shipperProcess{needed: true, pollExit: func() (bool, int) { return false, 0 }}
	for _, s := range ring.Printed {
		c.pipes[s] = &pipe{stream: s, tee: -1, ended: true}
	}
	w.Write(ring.Stdout, []byte("out\n"))
	for _, s := range ring.Streams {
		w.End(s)
		service.SaveProgress(s, ring.Progress{At: w.Written(s)})
		service.MarkComplete(s)
	}
	require.False(t, c.Flushed())
	c.failed = false
	require.True(t, c.Flushed(), "the container doesn't fail")
	c.failed = true
	isRunning := c.shipper.pollExit
	c.shipper.pollExit = nil
	require.True(t, c.Flushed(), "nobody would write it")
	c.shipper.pollExit = isRunning
	service.Explain()
	require.True(t, c.Flushed())
}
