// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/ring"
)

func TestACommandWhoseOutputIsHeldBackIsNotSilent(t *testing.T) {
	c := newChain(t, secretSources{}, func(http.ResponseWriter, *http.Request) bool { return false })
	sendsEmpty := func() bool { return newSender(c.reader, ring.Stderr, c.shipper.client, nil).sendEmpty }
	c.writer.Hold()
	c.writer.Write(ring.Events, []byte("{}\n"))
	require.False(t, sendsEmpty())
	c.writer.Write(ring.Stdout, []byte("out\n"))
	require.True(t, sendsEmpty())
}
