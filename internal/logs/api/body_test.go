// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// packed returns a gzip member as the shipper makes it, with some changes.
func packed(text string, but func(*gzip.Writer)) string {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level that there is
	if but != nil {
		but(w)
	}
	_, _ = w.Write([]byte(text)) // into memory
	_ = w.Close()
	return b.String()
}

// noise returns incompressible bytes.
func noise(size int) string {
	random := rand.NewChaCha8([32]byte{1})
	text := make([]byte, size)
	_, _ = random.Read(text) // never fails
	return string(text)
}

// objects returns the data objects of a stream.
func (s *service) objects(path string) (contents []string) {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.directory, "streams", strings.TrimPrefix(path, "/logs/"), "data", "*"))
	require.NoError(s.t, err)
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(s.t, err)
		contents = append(contents, string(content))
	}
	return contents
}

func TestACanonicalMemberIsStoredUnchanged(t *testing.T) {
	s := serve(t, 1)
	text := strings.Repeat("GET /index.html 200\n", 2000)
	marks := times.Encode(0, []times.Mark{{Time: 1000}, {At: 20, Time: 1005}})
	damaged := []byte(packed(text, nil))
	damaged[len(damaged)-6]++ // its checksum
	for name, test := range map[string]struct {
		text, body string
		status     int
		asItCame   bool
	}{
		"ours":                   {text, packed(text, nil), 202, true},
		"with times":             {text, packed(text, func(w *gzip.Writer) { w.Extra = marks }), 202, true},
		"one byte":               {"x", packed("x", nil), 202, true},
		"noise":                  {noise(streams.MaxWrite), packed(noise(streams.MaxWrite), nil), 202, true},
		"another level":          {text, zipped(t, text), 202, false},
		"a name":                 {text, packed(text, func(w *gzip.Writer) { w.Name = "password" }), 202, false},
		"a comment":              {text, packed(text, func(w *gzip.Writer) { w.Comment = "password" }), 202, false},
		"a time of its own":      {text, packed(text, func(w *gzip.Writer) { w.ModTime = time.Unix(1, 0) }), 202, false},
		"a field of another's":   {text, packed(text, func(w *gzip.Writer) { w.Extra = append([]byte("zz\x01\x00a"), marks...) }), 202, false},
		"a field behind ours":    {text, packed(text, func(w *gzip.Writer) { w.Extra = append(bytes.Clone(marks), "zz\x01\x00a"...) }), 202, false},
		"times that can't be":    {text, packed(text, func(w *gzip.Writer) { w.Extra = []byte("ep\x01\x00\xff") }), 202, false},
		"times behind its bytes": {"x", packed("x", func(w *gzip.Writer) { w.Extra = marks }), 202, false},
		"two members":            {text + text, packed(text, nil) + packed(text, nil), 202, false},
		"an empty one behind it": {text, packed(text, nil) + packed("", nil), 202, false},
		"an empty one before it": {text, packed("", nil) + packed(text, nil), 202, false},
		"many empty blocks": {"x", packed("x", func(w *gzip.Writer) {
			for range 60 {
				_ = w.Flush() // into memory
			}
		}), 202, false},
		"something behind it": {text, packed(text, nil) + "x", 400, false},
		"zeros behind it":     {text, packed(text, nil) + "\x00\x00", 400, false},
		"half of it":          {text, packed(text, nil)[:100], 400, false},
		"no trailer":          {text, strings.TrimSuffix(packed(text, nil), packed(text, nil)[len(packed(text, nil))-8:]), 400, false},
		"another checksum":    {text, string(damaged), 400, false},
		"fewer bytes":         {text, packed(text[1:], nil), 400, false},
		"more bytes":          {text, packed(text+"x", nil), 413, false},
		"nothing":             {text, "", 400, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := s.stream(name)
			got := s.do(http.MethodPatch, path+"/data", "token-of-a", test.body, "Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(test.text)-1, len(test.text)), "Content-Encoding", "gzip")
			require.Equal(t, test.status, got.status, got.body)
			if test.status != http.StatusAccepted {
				require.Empty(t, s.objects(path))
				return
			}
			require.Len(t, s.objects(path), 1)
			object := s.objects(path)[0]
			require.Equal(t, test.asItCame, object == test.body)
			require.Less(t, len(object), len(test.text)+200)
			require.NotContains(t, object, "password")
			require.Equal(t, test.text, s.text(path))
		})
	}
	s.requireAllReleased()
}

// The service accepts what a plain gzip reader accepts, and returns the same bytes.
func FuzzCompressedBodiesAreReadAsGzipReadsThem(f *testing.F) {
	for _, seed := range []string{
		"", packed("", nil), packed("hello", nil), packed("hello", nil) + packed("world", nil), packed("hello", nil) + "x", packed(noise(200), nil),
		packed("hello", func(w *gzip.Writer) { w.Extra = times.Encode(0, []times.Mark{{Time: 1000}, {At: 2, Time: 1005}}) }),
		packed("hello", func(w *gzip.Writer) { w.Name = "name" }), packed(strings.Repeat("x", 3000), nil),
	} {
		f.Add([]byte(seed))
	}
	files, err := storage.OpenFiles(f.TempDir())
	require.NoError(f, err)
	defer files.Close()
	store, err := streams.Open(f.Context(), files)
	require.NoError(f, err)
	const most = 2000
	count := 0
	f.Fuzz(func(t *testing.T, came []byte) {
		sent, err := unpack(came, most)
		want, wrong := plainly(came, most)
		require.Equal(t, wrong == nil, err == nil, "%v, %v", wrong, err)
		if err != nil || len(want) == 0 {
			return
		}
		require.True(t, bytes.Equal(want, sent.data))
		count++
		id, err := store.Create(t.Context(), streams.Source{Namespace: "tenant", Pod: "a", Name: fmt.Sprint(count)})
		require.NoError(t, err)
		require.NoError(t, store.WriteMember(t.Context(), id, 0, sent.data, sent.member, times.Decode(sent.extra, 0, int64(len(want)))...))
		part, err := store.Reader(id, 0).Next(t.Context())
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, part.Data))
		require.NoError(t, store.End(t.Context(), id, int64(len(want))))
	})
}

// plainly decompresses up to most bytes with a plain gzip reader.
func plainly(came []byte, most int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(came))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(data) > most {
		err = gzip.ErrHeader
	}
	return data, err
}
