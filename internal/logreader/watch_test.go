// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/target"
)

func TestALogIsWatchedFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ended := c.prints("p", "init", start(0), "stdout", said{1, "init\n"})
	c.end(ended, 5)
	id := c.prints("p", "main", start(10), "stdout", said{11, "one\n"}, said{13, "begun"})
	warned := c.prints("p", "main", start(10), "stderr", said{12, "warning\n"})
	require.NoError(t, c.store.Drop(t.Context(), warned, streams.Range{From: 8, To: 20}))
	named, err := target.Parse("pod/p", target.All())
	require.NoError(t, err)

	var lines []string
	err = c.client.Watch(t.Context(), Options{Target: named, Warnings: io.Discard}, func(l Line) error {
		lines = append(lines, fmt.Sprintf("%s %s %d %q ended=%t notice=%t", l.Container, l.Name, l.Offset, l.Text, l.Ended, l.Notice))
		return nil
	}, func() {
		lines = append(lines, "live")
		require.NoError(t, c.store.Write(t.Context(), id, 9, []byte(" and ended\nthree\n")))
		c.end(id, 26)
		c.end(warned, 20)
		c.ends("Succeeded")
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		`init stdout 0 "init" ended=true notice=false`,
		`main stdout 0 "one" ended=true notice=false`,
		`main stderr 0 "warning" ended=true notice=false`,
		`main stderr 8 "[entrypointer: 12 bytes were dropped]" ended=true notice=true`,
		`main stdout 4 "begun" ended=false notice=false`,
		"live",
		`main stdout 9 " and ended" ended=true notice=false`,
		`main stdout 20 "three" ended=true notice=false`,
	}, lines)
}

func TestOffsetsOfLinesAreThoseOfTheirFirstBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", longestLine)
	s := &splitter{}
	var lines []line
	for _, p := range []part{
		{From: 5, To: 12, Data: []byte("a\nb\ncde")},
		{From: 12, To: 14, Data: []byte("f\n")},
		{From: 14, To: 20},
		{From: 20, To: 22, Data: []byte("gh")},
		{From: 22, To: 30, dropped: true},
		{From: 30, To: 31 + longestLine, Data: []byte(long + "y")},
		{From: 31 + longestLine, To: 33 + longestLine, Data: []byte("z\n")},
		{From: 33 + longestLine, To: 36 + longestLine, Data: []byte("end")},
	} {
		s.feed(p)
		for l, is := s.next(); is; l, is = s.next() {
			l.text = nil
			lines = append(lines, l)
		}
	}
	l, is := s.rest()
	require.True(t, is)
	l.text = nil
	require.Equal(t, []line{
		{from: 5, ended: true},
		{from: 7, ended: true},
		{from: 9, ended: true},
		{from: 14, ended: true, isNotice: true},
		{from: 20, ended: true},
		{from: 22, ended: true, isNotice: true},
		{from: 30},
		{from: 31 + longestLine, ended: true, continued: true},
		{from: 33 + longestLine},
	}, append(lines, l))
}
