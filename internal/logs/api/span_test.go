// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/times"
)

func TestLinesOfASpanOfTimeAreRead(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	begin := time.Now().Add(-3 * time.Hour)
	for i, text := range []string{"one\n", "two\n", "six\n"} {
		if i > 0 {
			s.age(3*time.Hour - time.Duration(i)*time.Hour + 50*time.Minute) // what is there was stored 10 minutes after it was printed, or earlier
		}
		at := int64(4 * i)
		printed := begin.Add(time.Duration(i) * time.Hour).UnixMilli()
		s.accepted(http.MethodPatch, path+"/data", zippedWith(t, times.Encode(at, []times.Mark{{At: at, Time: printed}}), text), "Content-Range", rangeOf(at), "Content-Encoding", "gzip")
	}
	after := func(d time.Duration) string { return url.QueryEscape(begin.Add(d).Format(time.RFC3339Nano)) }
	for query, want := range map[string]string{
		"":                                 "one\ntwo\nsix\n",
		"?untilTime=" + after(time.Hour):   "one\n",
		"?untilTime=" + after(0):           "",
		"?sinceTime=" + after(2*time.Hour): "two\nsix\n", // and what came before
		"?from=4&untilTime=" + after(90*time.Minute): "two\n",
	} {
		got := s.do(http.MethodGet, path+"/data"+query, "token-of-user-tenant", "")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, want, got.body, query)
	}
	got := s.do(http.MethodGet, path+"/data?untilTime="+after(time.Hour), "token-of-user-tenant", "", "Accept", eventStreamType)
	require.Contains(t, got.body, "event: end\n", "nothing of the span can come any more")
	for query, says := range map[string]string{
		"sinceTime=yesterday":               `parameter sinceTime is \"yesterday\": use a time such as`,
		"untilTime=9":                       `parameter untilTime is \"9\": use a time such as`,
		"follow=true&untilTime=" + after(0): "follow and untilTime are both set",
		"sinceTime=" + after(time.Hour) + "&untilTime=" + after(0): "untilTime isn't after sinceTime",
	} {
		got := s.do(http.MethodGet, path+"/data?"+query, "token-of-user-tenant", "")
		require.Equal(t, http.StatusBadRequest, got.status)
		require.Contains(t, got.body, says)
	}
}

func rangeOf(at int64) string {
	return map[int64]string{0: "bytes 0-3/*", 4: "bytes 4-7/*", 8: "bytes 8-11/12"}[at]
}
