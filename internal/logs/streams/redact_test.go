// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// reveals reports whether an object has a text, also in a part of it that nobody reads.
func (m *memory) reveals(t *testing.T, text string) (keys []string) {
	t.Helper()
	for key, o := range m.objects {
		content := string(o.content)
		if unpacked, err := gzip.NewReader(bytes.NewReader(o.content)); err == nil {
			all, err := io.ReadAll(unpacked)
			require.NoError(t, err, key)
			content = string(all)
		}
		if strings.Contains(content, text) {
			keys = append(keys, key)
		}
	}
	return keys
}

// requireMasked checks that no object has a byte that is redacted.
func requireMasked(t *testing.T, m *memory, id string) {
	t.Helper()
	redacted := redactedIn(m, id)
	for key, o := range m.objects {
		kind, name, _ := strings.Cut(strings.TrimPrefix(key, directory(id)), "/")
		if kind != "data" && kind != "joined" {
			continue
		}
		p, ok := pieceOf(storageObject(name, o), kind)
		require.True(t, ok, key)
		members := []member{{object: p.object, content: o.content}}
		if p.joined {
			j, err := decodeJoined(p.object, o.content)
			require.NoError(t, err)
			members = nil
			for at := p.From; at < p.To; {
				m := j.memberAt(at)
				members, at = append(members, m), m.counts.To
			}
		}
		for _, member := range members {
			data := make([]byte, member.object.Len())
			_, err := new(inflater).inflate(data, member.content)
			require.NoError(t, err)
			masked := bytes.Clone(data)
			redacted.mask(member.object.From, masked)
			require.Equal(t, string(masked), string(data), "%s, of which %v is redacted", key, redacted)
		}
	}
}

// redactedIn returns what is redacted in a bucket.
func redactedIn(m *memory, id string) (redacted Ranges) {
	for key := range m.objects {
		if name, is := strings.CutPrefix(key, directory(id)+"redact/"); is {
			r, _ := parseRangeName(name)
			redacted = redacted.With(r)
		}
	}
	return redacted
}

// redactions are what is redacted in a world.
type redactions struct {
	sure  []bool // by offset, since a request has succeeded
	maybe []bool // since one has begun
}

// mask returns a text from an offset on as it has to be in the end.
func (r *redactions) mask(text string, from int64, m *memory, id string) string {
	if r == nil {
		return text
	}
	masked, redacted := []byte(text), redactedIn(m, id)
	for at := range r.sure[from:] {
		in := redacted.find(from + int64(at))
		if in.Len() > 0 && text[at] != '?' && text[at] != '.' {
			masked[at] = maskByte
		}
	}
	return string(masked)
}

// redact redacts a range while others continue.
func (w *world) redact(r Range) {
	if w.random.IntN(3) == 0 { // as is done with several lines
		r.To = min(w.total, r.To+20)
	}
	for at := r.From; at < r.To; at++ {
		w.redacting.maybe[at] = true
	}
	_, err := w.busy(60).Redact(w.t.Context(), w.id, Source{Namespace: "tenant", Pod: "pod"}, Ranges{r}, false)
	if err != nil {
		if !strings.Contains(err.Error(), ErrNotStored.Error()) && !errors.Is(err, ErrHeld) {
			require.ErrorIs(w.t, err, errKilled)
		}
		return
	}
	for at := r.From; at < r.To; at++ {
		w.redacting.sure[at] = true
	}
}

// masksOf are what a reader has to mask: what was redacted before its listing began.
type masksOf struct {
	layout         *sharedLayout
	sure, nextSure []bool // by the layout
	began, next    time.Time
}

func (o *masksOf) before(w *world) {
	o.next = w.memory.now
	if w.redacting != nil {
		o.nextSure = slices.Clone(w.redacting.sure)
	}
}

func (o *masksOf) after(r *Reader) {
	if r.layout != o.layout {
		o.layout, o.sure, o.began = r.layout, o.nextSure, o.next
	}
}

// check checks what a reader has returned. Of two writes during its listing, it may have the
// second one only.
func (o *masksOf) check(w *world, p Part) {
	want := []byte(w.oracle.text(p.From, p.To))
	for i, b := range p.Data {
		at := p.From + int64(i)
		if w.redacting != nil && b == maskByte && w.redacting.maybe[at] || o.sure != nil && o.sure[at] {
			want[i] = maskByte
		} else if w.first[at].After(o.began) && strings.ContainsRune(w.others[at], rune(b)) {
			want[i] = b
		}
	}
	require.Equal(w.t, string(want), string(p.Data))
}

func TestRedactingChangesNothingElseForReaders(t *testing.T) {
	for seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runWorld(t, seed, seed%2 == 1, true, false) })
	}
}

const secretLine = "password=hunter2\n"

// leakyStream creates a stream of build with a line that has leaked, in an object of a kind,
// and others around it. It returns the range of the line.
func leakyStream(t *testing.T, m *memory, s *Store, joins bool) (id string, leaked Range, text string) {
	t.Helper()
	id, err := s.Create(t.Context(), build)
	require.NoError(t, err)
	for i := range 40 {
		line := fmt.Sprintf("line %d\n", i)
		if i == 20 {
			leaked = Range{int64(len(text)), int64(len(text) + len(secretLine))}
			line = secretLine
		}
		require.NoError(t, s.Write(t.Context(), id, int64(len(text)), []byte(line), times.Mark{At: int64(len(text)), Time: m.now.UnixMilli()}))
		text += line
	}
	if joins {
		m.now = m.now.Add(2 * settleTime)
		_, err := s.Tidy(t.Context(), id, m.now, 0)
		require.NoError(t, err)
		require.NotZero(t, m.count(directory(id)+"joined"))
	}
	require.NotEmpty(t, m.reveals(t, "hunter2"))
	return id, leaked, text
}

func masked(text string, r Range) string {
	all := []byte(text)
	Ranges{r}.mask(0, all)
	return string(all)
}

func TestARedactedLineIsGoneAtOnceFromReadersAndFromTheStorage(t *testing.T) {
	for name, joins := range map[string]bool{"in small objects": false, "in a joined object and its parts": true} {
		t.Run(name, func(t *testing.T) {
			m, s, _ := openMemory(t)
			id, leaked, text := leakyStream(t, m, s, joins)
			other, err := Open(t.Context(), m)
			require.NoError(t, err)
			reader := other.Reader(id, 0) // its replica has listed the stream already
			part, err := reader.Next(t.Context())
			require.NoError(t, err)
			written := m.now

			m.now = m.now.Add(20 * 24 * time.Hour)
			count, err := s.Redact(t.Context(), id, build, Ranges{leaked}, true)
			require.NoError(t, err)
			require.Equal(t, leaked.Len(), count)
			require.NotEmpty(t, m.reveals(t, "hunter2"), "that was a dry run")
			for range 2 {
				count, err = s.Redact(t.Context(), id, build, Ranges{leaked}, false)
				require.NoError(t, err)
				require.Equal(t, leaked.Len(), count)
				require.Empty(t, m.reveals(t, "hunter2"))
			}
			want := masked(text, leaked)
			require.Equal(t, strings.Repeat("*", len(secretLine)-1)+"\n", want[leaked.From:leaked.To], "the line is still one")
			got, _ := textOf(t, m, other, id, 0)
			require.Equal(t, want, got)
			got, _ = textOf(t, m, other, id, leaked.From+3)
			require.Equal(t, want[leaked.From+3:], got)
			if !joins { // or it has read the object before
				got, _ = drain(t, reader)
				require.Equal(t, want[part.To:], got, "the other replica's reader goes on")
			}

			found, err := s.Inspect(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, m.bytes(directory(id)), found.Bytes)
			require.False(t, found.Last.After(written), "the stream expires when it would have")
			require.NoError(t, s.End(t.Context(), id, int64(len(text))))
			tidy(t, m, s, id)
			require.LessOrEqual(t, m.count(directory(id)+"joined"), 2, "it is joined as before")
			require.Zero(t, m.count(directory(id)+"data"))
			require.Empty(t, m.reveals(t, "hunter2"))
			got, complete := textOf(t, m, s, id, 0)
			require.Equal(t, want, got)
			require.True(t, complete)
		})
	}
}

func TestATimeIsFoundInARedactedStreamAsBefore(t *testing.T) {
	m, s, _ := openMemory(t)
	id, err := s.Create(t.Context(), build)
	require.NoError(t, err)
	var noon Range
	for i := range int64(24) {
		if i == 12 {
			noon = Range{6 * i, 6*i + 6}
		}
		require.NoError(t, s.Write(t.Context(), id, 6*i, fmt.Appendf(nil, "at %02d\n", i), times.Mark{At: 6 * i, Time: m.now.UnixMilli()}))
		m.now = m.now.Add(time.Hour)
	}
	began := m.now.Add(-12 * time.Hour)
	at := func() string {
		r := s.Reader(id, 0)
		require.NoError(t, r.Seek(t.Context(), Span{Since: began, Until: began.Add(2 * time.Hour)}))
		text, _ := drain(t, r)
		return text
	}
	before := at()
	require.Contains(t, before, "at 12\nat 13\n")
	m.now = m.now.Add(100 * time.Hour)
	_, err = s.Redact(t.Context(), id, build, Ranges{noon}, false)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(before, "at 12", "*****", 1), at())
	tidy(t, m, s, id)
	require.Contains(t, at(), "*****\nat 13\n")
}

func TestWhatComesLateIsHiddenAndMasked(t *testing.T) {
	for name, joins := range map[string]bool{"in small objects": false, "in a joined object and its parts": true} {
		t.Run(name, func(t *testing.T) {
			m, s, _ := openMemory(t)
			id, leaked, text := leakyStream(t, m, s, joins)
			late := map[string]stored{} // of a replica that was joining, and of one that was writing
			for key, o := range m.objects {
				if strings.Contains(key, "/joined/") || strings.Contains(key, "/data/") {
					late[key] = o
				}
			}
			_, err := s.Redact(t.Context(), id, build, Ranges{leaked}, false)
			require.NoError(t, err)
			m.now = m.now.Add(time.Minute)
			for key, o := range late {
				if err := m.Create(t.Context(), key, o.content); err != nil {
					require.ErrorContains(t, err, "exists")
				}
			}
			require.NoError(t, s.Write(t.Context(), id, leaked.From-5, []byte(text[leaked.From-5:leaked.To+5])), "a client that splits its bytes in another way")
			require.NotEmpty(t, m.reveals(t, "hunter2"))
			want := masked(text, leaked)
			got, _ := textOf(t, m, s, id, 0)
			require.Equal(t, want, got)
			_, err = s.Tidy(t.Context(), id, m.now, 0)
			require.NoError(t, err)
			require.Empty(t, m.reveals(t, "hunter2"))
			got, _ = textOf(t, m, s, id, 0)
			require.Equal(t, want, got)
			tidy(t, m, s, id)
			got, _ = textOf(t, m, s, id, 0)
			require.Equal(t, want, got)
		})
	}
}

// A member has bytes that don't count where two clients have sent the same offsets, and the
// object that it is joined to ends before them.
func TestALineIsMaskedWhereItDoesNotCount(t *testing.T) {
	m, s, _ := openMemory(t)
	id, err := s.Create(t.Context(), build)
	require.NoError(t, err)
	const line = "0123456789secret\n"
	for i := range int64(16) {
		require.NoError(t, s.Write(t.Context(), id, i, []byte(line[i:i+1])))
	}
	m.now = m.now.Add(time.Second)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte(line)), "all of it, which counts only from byte 16 on")
	tidy(t, m, s, id)
	require.NoError(t, s.End(t.Context(), id, int64(len(line))))
	tidy(t, m, s, id)
	require.NotEmpty(t, m.reveals(t, "secret"))
	_, err = s.Redact(t.Context(), id, build, Ranges{{10, 16}}, false)
	require.NoError(t, err)
	require.Empty(t, m.reveals(t, "secret"))
	got, _ := textOf(t, m, s, id, 0)
	require.Equal(t, "0123456789******\n", got)
}

func TestAnInterruptedRedactionIsFinishedByARepetitionOrByTidying(t *testing.T) {
	for _, joins := range []bool{false, true} {
		for calls := range 40 {
			m, s, _ := openMemory(t)
			id, leaked, text := leakyStream(t, m, s, joins)
			killed, broken := *s, &failingBucket{left: calls}
			killed.bucket = &interrupted{m, func(bool) bool { return broken.call() }, func() bool { return false }}
			_, failed := killed.Redact(t.Context(), id, build, Ranges{leaked}, false)
			want := masked(text, leaked)
			got, _ := textOf(t, m, s, id, 0)
			isHidden := len(redactedIn(m, id)) > 0
			if isHidden {
				require.Equal(t, want, got, "after %d calls", calls)
			} else {
				require.Equal(t, text, got, "after %d calls", calls)
			}
			if failed == nil {
				require.Empty(t, m.reveals(t, "hunter2"), "after %d calls", calls)
			} else {
				require.ErrorIs(t, failed, errKilled)
			}
			if isHidden && calls%2 == 0 {
				_, err := s.Tidy(t.Context(), id, m.now, 0)
				require.NoError(t, err)
			} else {
				_, err := s.Redact(t.Context(), id, build, Ranges{leaked}, false)
				require.NoError(t, err)
			}
			require.Empty(t, m.reveals(t, "hunter2"), "after %d calls", calls)
			got, _ = textOf(t, m, s, id, 0)
			require.Equal(t, want, got, "after %d calls", calls)
		}
	}
}

func TestOnlyStoredBytesOfAStreamThatIsNotHeldAreRedacted(t *testing.T) {
	m, s, _ := openMemory(t)
	id, leaked, text := leakyStream(t, m, s, true)
	end := int64(len(text))
	require.NoError(t, s.Write(t.Context(), id, end+10, []byte("behind a gap")))
	for _, r := range []Range{{end, end + 10}, {end - 1, end + 11}, {end + 20, end + 30}} {
		_, err := s.Redact(t.Context(), id, build, Ranges{leaked, r}, false)
		require.ErrorIs(t, err, ErrNotStored, "%v", r)
	}
	many := Ranges{}
	for at := range int64(MaxRedactions + 1) {
		many = append(many, Range{2 * at, 2*at + 1})
	}
	require.NoError(t, s.Write(t.Context(), id, end, bytes.Repeat([]byte("x"), 2*MaxRedactions)))
	_, err := s.Redact(t.Context(), id, build, many, true)
	require.ErrorIs(t, err, ErrManyRedactions)
	require.NoError(t, s.Hold(t.Context(), "tenant", ofBuild, "jane"))
	_, err = s.Redact(t.Context(), id, build, Ranges{leaked}, true)
	require.ErrorIs(t, err, ErrHeld)
	require.Zero(t, m.count(directory(id)+"redact"))
	_, err = s.Release(t.Context(), "tenant", ofBuild)
	require.NoError(t, err)
	_, err = s.Redact(t.Context(), id, build, many[1:], false)
	require.NoError(t, err)
	_, err = s.Redact(t.Context(), id, build, many[:1], false)
	require.ErrorIs(t, err, ErrManyRedactions)
	_, err = s.Redact(t.Context(), id, build, many[1:2], false)
	require.NoError(t, err, "again")
	requireMasked(t, m, id)
	tidy(t, m, s, id)
	requireMasked(t, m, id)
}

func TestRedactionsAreForgottenWithWhatTheyHide(t *testing.T) {
	m, s, _ := openMemory(t)
	id, leaked, text := leakyStream(t, m, s, false)
	_, err := s.Redact(t.Context(), id, build, Ranges{leaked}, false)
	require.NoError(t, err)
	_, err = s.Trim(t.Context(), id, m.now, 0)
	require.NoError(t, err)
	require.NoError(t, s.Write(t.Context(), id, int64(len(text)), []byte("it goes on\n")))
	tidy(t, m, s, id)
	require.Equal(t, 1, m.count(directory(id)+"redact"))
	m.now = m.now.Add(erasedAge)
	tidy(t, m, s, id)
	require.Zero(t, m.count(directory(id)+"redact"))

	other, leaked, _ := leakyStream(t, m, s, false)
	_, err = s.Redact(t.Context(), other, build, Ranges{leaked}, false)
	require.NoError(t, err)
	m.now = m.now.Add(time.Hour)
	require.NoError(t, s.MarkDeleted(t.Context(), other, build))
	_, _, err = s.NewSweep(m.now.Add(2*tombstoneAge), false).FinishDeletions(t.Context(), '0', 'f', func(string) time.Duration { return time.Nanosecond })
	require.NoError(t, err)
	require.Zero(t, m.count(directory(other)))
}

func TestAFollowerSeesNothingOfALineThatIsRedactedBeforeItComesToIt(t *testing.T) {
	m, s, id := openMemory(t)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("first\n")))
	follower := s.Follower(id, 0)
	follower.now = func() time.Time { return m.now }
	part, err := follower.Next(t.Context())
	require.NoError(t, err)
	_, err = follower.Next(t.Context())
	require.ErrorIs(t, err, ErrNotYet)
	m.now = m.now.Add(time.Second)
	require.NoError(t, s.Write(t.Context(), id, part.To, []byte("secret\n")))
	require.NoError(t, s.Write(t.Context(), id, part.To+7, []byte("last\n")))
	_, err = s.Redact(t.Context(), id, Source{Namespace: "tenant", Pod: "pod"}, Ranges{{part.To, part.To + 7}}, false)
	require.NoError(t, err)
	m.now = m.now.Add(time.Second)
	require.NoError(t, s.Write(t.Context(), id, part.To, []byte("secret\n")), "a repeated request")
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("first\nsecret\n")))
	text := ""
	for len(text) < len("secret\nlast\n") {
		part, err := follower.Next(t.Context())
		if err != nil {
			require.ErrorIs(t, err, ErrNotYet)
			follower.listedAt = time.Time{} // time goes on
			continue
		}
		text += string(part.Data)
	}
	require.Equal(t, "******\nlast\n", text)
}

func TestASearchFindsNothingOfARedactedLine(t *testing.T) {
	m, s, _ := openMemory(t)
	id, leaked, text := leakyStream(t, m, s, true)
	_, err := s.Redact(t.Context(), id, build, Ranges{leaked}, false)
	require.NoError(t, err)
	require.NoError(t, s.Write(t.Context(), id, leaked.From, []byte(secretLine)), "a repeated request")
	require.NoError(t, s.create(t.Context(), directory(id)+"joined/"+rangeName(Range{0, int64(len(text))}), joinedText(t, text)), "of a replica that was joining")
	c := newCollector()
	_, err = s.Search(t.Context(), SearchQuery{Namespace: build.Namespace, Keep: everything}, c)
	require.NoError(t, err)
	require.Equal(t, masked(text, leaked), c.texts[id])
}

// joinedText returns a joined object with a text from the beginning of a stream.
func joinedText(t *testing.T, text string) []byte {
	t.Helper()
	var member bytes.Buffer
	require.NoError(t, compress(&member, []byte(text), nil))
	whole := Range{0, int64(len(text))}
	j := &joinedObject{name: whole}
	j.add(memberOf(whole, member.Bytes()), whole)
	content, err := j.encode()
	require.NoError(t, err)
	return content
}

func memberOf(r Range, content []byte) member {
	return member{counts: r, object: r, content: content, written: time.Now()}
}

func TestNamesOfRewrittenObjects(t *testing.T) {
	written := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	name := maskedName(Range{10, 30}, 7, written)
	object := storageObject(name, stored{[]byte("x"), written.Add(time.Hour)})
	for _, kind := range []string{"data", "joined"} {
		p, ok := pieceOf(object, kind)
		require.True(t, ok)
		require.Equal(t, name, p.name())
		require.Equal(t, path.Join(kind, name), p.key())
		require.True(t, p.written.Equal(written))
		require.True(t, p.createdAt().Equal(written.Add(time.Hour)))
		require.Equal(t, int64(7), p.masked())
	}
	for _, kind := range []string{"drop", "trim", "redact"} {
		_, ok := pieceOf(object, kind)
		require.False(t, ok)
	}
	require.Less(t, rangeName(Range{10, 30}), name, "a listing has it behind the former object")
	require.Less(t, name, maskedName(Range{10, 30}, 16, written), "and one of which more is masked behind it")
	for _, wrong := range []string{name + "0", name + "-0", strings.ToUpper(name[:16]) + name[16:] + "A", rangeName(Range{10, 30}) + "-7-1", rangeName(Range{10, 30}) + "-0000000000000000-1"} {
		_, ok := pieceOf(storageObject(wrong, stored{}), "data")
		require.False(t, ok, wrong)
	}
}

func TestARedactionThatHasNoTimeLeftIsContinued(t *testing.T) {
	m, s, _ := openMemory(t)
	id, leaked, _ := leakyStream(t, m, s, false)
	ctx, cancel := context.WithCancel(t.Context())
	late := *s
	late.bucket = &interrupted{m, func(bool) bool {
		if m.count(directory(id)+"redact") > 0 {
			cancel()
		}
		return ctx.Err() != nil
	}, func() bool { return false }}
	_, err := late.Redact(ctx, id, build, Ranges{leaked}, false)
	require.Error(t, err)
	require.NotEmpty(t, m.reveals(t, "hunter2"))
	_, err = s.Redact(t.Context(), id, build, Ranges{leaked}, false)
	require.NoError(t, err)
	require.Empty(t, m.reveals(t, "hunter2"))
}

// A listing of files isn't of one moment: it may find neither an object nor the one that it is
// rewritten to.
func TestReadersMissNothingWhileLinesAreDeleted(t *testing.T) {
	directory := t.TempDir()
	s := replica(t, directory)
	id, err := s.Create(t.Context(), build)
	require.NoError(t, err)
	const lines, length = 40, int64(len("secret 000\n"))
	var text string
	for i := range lines {
		line := fmt.Sprintf("secret %03d\n", i)
		require.NoError(t, s.Write(t.Context(), id, int64(len(text)), []byte(line)))
		text += line
	}
	require.NoError(t, s.End(t.Context(), id, int64(len(text))))
	var redacted atomic.Int64 // lines
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var reads atomic.Int64
	for range 3 {
		other := replica(t, directory)
		readers.Go(func() {
			for ctx.Err() == nil {
				before := redacted.Load()
				got, complete := drain(t, other.Reader(id, 0))
				want, all := []byte(text), []byte(got)
				if !assert.True(t, complete) || !assert.Len(t, all, len(want)) {
					return
				}
				Ranges{{0, before * length}}.mask(0, want)
				for i, b := range all {
					if b == maskByte && int64(i) >= before*length {
						want[i] = maskByte
					}
				}
				if !assert.Equal(t, string(want), got) {
					return
				}
				reads.Add(1)
			}
		})
	}
	for i := range int64(lines) {
		_, err := s.Redact(t.Context(), id, build, Ranges{{i * length, (i + 1) * length}}, false)
		require.NoError(t, err)
		redacted.Store(i + 1)
	}
	cancel()
	readers.Wait()
	require.Positive(t, reads.Load())
}

// The keeper looks at a listing of all streams, and at the stream itself if there is something
// to do.
func TestALookAtAllStreamsFindsLateBytesOfARedactedLine(t *testing.T) {
	for _, joins := range []bool{true, false} {
		m, s, _ := openMemory(t)
		id, leaked, _ := leakyStream(t, m, s, joins)
		_, err := s.Redact(t.Context(), id, build, Ranges{leaked}, false)
		require.NoError(t, err)
		if joins { // a joined object has the late bytes, otherwise an object that isn't settled
			tidy(t, m, s, id)
		}
		isAtRest := func() (is bool) {
			require.NoError(t, s.EachInventory(t.Context(), id, func(of *Inventory) bool {
				_, is = s.NewSweep(m.now, false).Look(of, 0)
				return true
			}))
			return is
		}
		require.True(t, isAtRest())
		require.NoError(t, s.Write(t.Context(), id, leaked.From, []byte(secretLine)))
		require.NotEmpty(t, m.reveals(t, "hunter2"))
		require.False(t, isAtRest())
		tidy(t, m, s, id)
		require.Empty(t, m.reveals(t, "hunter2"))
		require.True(t, isAtRest())
	}
}
