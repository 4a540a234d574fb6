// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func someID(i int) (id streamID) {
	copy(id[:], fmt.Sprintf("%08d", i))
	return id
}

// ledgerOf returns a ledger of random records.
func ledgerOf(t testing.TB, random *rand.Rand, count int) (content []byte, head ledgerHead, records []record) {
	t.Helper()
	w := newLedgerWriter()
	head = ledgerHead{Version: ledgerVersion, Listed: time.Unix(random.Int64N(1e9), 5).UTC(), Saved: time.Unix(7, 0).UTC(), Read: map[string]int64{"replica": 3}}
	require.NoError(t, w.begin(head))
	for i := range count {
		r := record{
			namespace: fmt.Sprintf("tenant-%d", random.IntN(20)), bytes: random.Int64N(1e12), content: random.Int64N(1e9), copies: random.Int64N(1e6), index: 5 << 10,
			written: random.Int64N(200), last: time.Unix(random.Int64N(2e9), 0), due: time.Unix(random.Int64N(2e9), 0), held: random.IntN(2) == 0,
		}
		records = append(records, r)
		require.NoError(t, w.add(someID(i), r))
	}
	content, err := w.end()
	require.NoError(t, err)
	return content, head, records
}

func TestALedgerIsReadAsItWasWritten(t *testing.T) {
	for _, count := range []int{0, 1, 1000} {
		content, head, records := ledgerOf(t, rand.New(rand.NewPCG(1, 1)), count)
		r, err := readLedger(content)
		require.NoError(t, err)
		require.Equal(t, head, r.head)
		for i, want := range records {
			id, have, err := r.next()
			require.NoError(t, err)
			require.Equal(t, someID(i), id)
			require.Equal(t, want, have)
		}
		_, _, err = r.next()
		require.ErrorIs(t, err, io.EOF)
	}
}

// readAll returns how many records a ledger has, and its error.
func readAll(content []byte) (count int, err error) {
	r, err := readLedger(content)
	for err == nil {
		if _, _, err = r.next(); err == nil {
			count++
		}
	}
	return count, err
}

func TestADamagedLedgerIsNoticed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	content, _, _ := ledgerOf(t, random, 300)
	for range 3000 {
		damaged := append([]byte(nil), content...)
		switch random.IntN(3) {
		case 0:
			damaged = damaged[:random.IntN(len(damaged))]
		case 1:
			damaged = append(damaged, byte(random.Int()))
		default:
			at := 10 + random.IntN(len(damaged)-10) // gzip's own header has bytes that mean nothing
			damaged[at] ^= byte(1 + random.IntN(255))
		}
		_, err := readAll(damaged)
		require.ErrorIs(t, err, errLedger)
	}
}

func FuzzLedger(f *testing.F) {
	content, _, _ := ledgerOf(f, rand.New(rand.NewPCG(1, 1)), 20)
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) {
		if _, err := readAll(content); !errors.Is(err, io.EOF) && !errors.Is(err, errLedger) {
			t.Fatal(err)
		}
	})
}

func TestADamagedLedgerOrPageIsMadeAgain(t *testing.T) {
	h := open(t)
	id := h.stream("tenant", "pod", 3)
	h.look()
	before := h.usage.of("tenant")
	for _, path := range append(h.files("ledgers"), h.files("journal")...) {
		damage(t, path)
	}
	next := New(h.store, h.bucket, h.logger, newRegistry())
	next.Alone = true
	next.Use(&DefaultLimits)
	require.NoError(t, next.Sweep(t.Context()))
	require.Equal(t, before, next.usage.of("tenant"))
	require.Len(t, h.files("ledgers"), 1)
	last := New(h.store, h.bucket, h.logger, newRegistry())
	last.Alone = true
	require.NoError(t, last.Sweep(t.Context()))
	require.Equal(t, before, last.usage.of("tenant"))
	_, err := h.store.Source(t.Context(), id)
	require.NoError(t, err)
}

func BenchmarkLedgerOf100000Streams(b *testing.B) {
	content, _, _ := ledgerOf(b, rand.New(rand.NewPCG(1, 1)), 100_000)
	for b.Loop() {
		if count, err := readAll(content); count != 100_000 || !errors.Is(err, io.EOF) {
			b.Fatal(count, err)
		}
	}
	b.ReportMetric(float64(len(content))/100_000, "bytes/stream")
}

// A replica whose page was written by a call that failed writes its streams into the next
// page as well.
func TestAStreamThatTwoPagesHaveAsNewHasOneIndex(t *testing.T) {
	s := &sweep{now: time.Now(), limits: &DefaultLimits}
	created := growth{Namespace: "a", Bytes: 100 + 3072, Index: 3072, Streams: 1}
	once, known := record{}.grown(false, created, s)
	require.True(t, known)
	twice, known := record{}.grown(false, created.plus(created), s)
	require.True(t, known)
	require.Equal(t, int64(3072), once.index)
	require.Equal(t, once.index, twice.index)
}
