// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A memory is a bucket with a clock of its own.
type memory struct {
	objects map[string]stored
	now     time.Time
	calls   atomic.Int64
}

type stored struct {
	content []byte
	written time.Time
}

func newMemory() *memory {
	return &memory{objects: map[string]stored{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// Create implements storage.Bucket.
func (m *memory) Create(_ context.Context, key string, content []byte) error {
	m.calls.Add(1)
	if _, exists := m.objects[key]; exists {
		return storage.ErrExists
	}
	m.objects[key] = stored{bytes.Clone(content), m.now}
	return nil
}

// Read implements storage.Bucket.
func (m *memory) Read(_ context.Context, key string) ([]byte, error) {
	m.calls.Add(1)
	o, exists := m.objects[key]
	if !exists {
		return nil, storage.ErrNotFound
	}
	return o.content, nil
}

// List implements storage.Bucket.
func (m *memory) List(_ context.Context, directory string) (list []storage.Object, _ error) {
	m.calls.Add(1)
	for key, o := range m.objects {
		if path.Dir(key) == path.Clean(directory) {
			list = append(list, storage.Object{Name: path.Base(key), Size: int64(len(o.content)), Written: o.written})
		}
	}
	slices.SortFunc(list, func(a, b storage.Object) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Each implements storage.Bucket.
func (m *memory) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	list, err := m.List(ctx, directory)
	return passOn(list, err, each)
}

// Walk implements storage.Bucket.
func (m *memory) Walk(_ context.Context, directory, after string, each func(storage.Object) bool) error {
	m.calls.Add(1)
	var list []storage.Object
	for key, o := range m.objects {
		if name, below := strings.CutPrefix(key, path.Clean(directory)+"/"); below && name > after {
			list = append(list, storage.Object{Name: name, Size: int64(len(o.content)), Written: o.written})
		}
	}
	slices.SortFunc(list, func(a, b storage.Object) int { return strings.Compare(a.Name, b.Name) })
	return passOn(list, nil, each)
}

// Scan implements storage.Bucket.
func (m *memory) Scan(_ context.Context, prefix string, each func(storage.Object) bool) error {
	m.calls.Add(1)
	var list []storage.Object
	for key, o := range m.objects {
		if strings.HasPrefix(key, prefix) {
			list = append(list, storage.Object{Name: key, Size: int64(len(o.content)), Written: o.written})
		}
	}
	slices.SortFunc(list, func(a, b storage.Object) int { return strings.Compare(a.Name, b.Name) })
	return passOn(list, nil, each)
}

// DeleteAll implements storage.Bucket.
func (m *memory) DeleteAll(_ context.Context, keys []string) error {
	m.calls.Add(1)
	for _, key := range keys {
		delete(m.objects, key)
	}
	return nil
}

// Directories implements storage.Bucket.
func (m *memory) Directories(_ context.Context, directory string, each func(string) bool) error {
	m.calls.Add(1)
	names := map[string]bool{}
	for key := range m.objects {
		if rest, below := strings.CutPrefix(key, path.Clean(directory)+"/"); below {
			if name, _, deeper := strings.Cut(rest, "/"); deeper {
				names[name] = true
			}
		}
	}
	for name := range names {
		if !each(name) {
			break
		}
	}
	return nil
}

// Delete implements storage.Bucket.
func (m *memory) Delete(_ context.Context, key string) error {
	m.calls.Add(1)
	delete(m.objects, key)
	return nil
}

// count returns how many objects are below a directory.
func (m *memory) count(directory string) (n int) {
	for key := range m.objects {
		if strings.HasPrefix(key, directory) {
			n++
		}
	}
	return n
}

func openMemory(t *testing.T) (*memory, *Store, string) {
	t.Helper()
	m := newMemory()
	s, err := Open(t.Context(), m)
	require.NoError(t, err)
	s.redacters = 1 // a memory is of one goroutine
	return m, s, created(t, s)
}

// tidy calls Tidy until nothing is left to do.
func tidy(t *testing.T, m *memory, s *Store, id string) {
	t.Helper()
	for {
		m.now = m.now.Add(2 * settleTime)
		done, err := s.Tidy(t.Context(), id, m.now, 0)
		require.NoError(t, err)
		if done.Joined+done.Deleted == 0 {
			require.Equal(t, done.Bytes, m.bytes(directory(id)), "the size is known without another listing")
			return
		}
	}
}

func (m *memory) bytes(below string) (sum int64) {
	for key, o := range m.objects {
		if strings.HasPrefix(key, below) {
			sum += int64(len(o.content)) + ObjectOverhead
		}
	}
	return sum
}

// textOf reads a stream without waiting for missing bytes.
func textOf(t *testing.T, m *memory, s *Store, id string, from int64) (string, bool) {
	t.Helper()
	r := s.Reader(id, from)
	r.now = func() time.Time { return m.now.Add(time.Hour) }
	return drain(t, r)
}

func TestAStreamOfALineASecondStaysListable(t *testing.T) {
	m, s, id := openMemory(t)
	var want bytes.Buffer
	most := 0
	for second := range 3 * 3600 {
		m.now = m.now.Add(time.Second)
		line := fmt.Sprintf("%v one line of a log\n", m.now)
		require.NoError(t, s.Write(t.Context(), id, int64(want.Len()), []byte(line)))
		want.WriteString(line)
		if second%300 == 0 {
			_, err := s.Tidy(t.Context(), id, m.now, 0)
			require.NoError(t, err)
			most = max(most, m.count(directory(id)))
		}
	}
	require.Less(t, most, 1300, "as many as come in the minutes for which they stay, and some")
	text, _ := textOf(t, m, s, id, 0)
	require.Equal(t, want.String(), text)
	require.NoError(t, s.End(t.Context(), id, int64(want.Len())))
	raw := m.bytes(directory(id))
	tidy(t, m, s, id)
	t.Logf("%d lines, %d bytes: %d objects of %d bytes, of %d", 3*3600, want.Len(), m.count(directory(id)), m.bytes(directory(id)), raw)
	require.LessOrEqual(t, m.count(directory(id)), 8)
	text, complete := textOf(t, m, s, id, 100)
	require.Equal(t, want.String()[100:], text)
	require.True(t, complete)
}

func TestARepeatedWriteAfterJoiningChangesNothing(t *testing.T) {
	m, s, id := openMemory(t)
	for i := range int64(20) {
		require.NoError(t, s.Write(t.Context(), id, i, []byte("a")))
	}
	require.NoError(t, s.Drop(t.Context(), id, Range{20, 30}))
	tidy(t, m, s, id)
	require.Zero(t, m.count(directory(id)+"data"))
	require.NoError(t, s.Write(t.Context(), id, 3, []byte("b")))
	require.NoError(t, s.Write(t.Context(), id, 0, bytes.Repeat([]byte("c"), 25)))
	require.NoError(t, s.Drop(t.Context(), id, Range{0, 30}))
	for range 3 {
		text, _ := textOf(t, m, s, id, 0)
		require.Equal(t, strings.Repeat("a", 20)+"ccccc.....", text)
		require.ErrorIs(t, s.End(t.Context(), id, 10), ErrConflict)
		tidy(t, m, s, id)
	}
}

func TestMarkersAndClaimsAreJoinedToo(t *testing.T) {
	m, s, id := openMemory(t)
	for i := range int64(100) {
		require.NoError(t, s.Drop(t.Context(), id, Range{10 * i, 10*i + 12}))
	}
	for range 50 {
		_, err := s.Append(t.Context(), id, []byte("appended"))
		require.NoError(t, err)
	}
	tidy(t, m, s, id)
	require.Equal(t, 1, m.count(directory(id)+"drop"))
	require.Equal(t, 1, m.count(directory(id)+"claim"), "the next claim follows the last one")
	from, err := s.Append(t.Context(), id, []byte("x"))
	require.NoError(t, err)
	require.Equal(t, int64(1002+400), from)
	require.NoError(t, s.End(t.Context(), id, 1403))
	tidy(t, m, s, id)
	require.Zero(t, m.count(directory(id)+"claim"))
	text, complete := textOf(t, m, s, id, 0)
	require.Equal(t, strings.Repeat(".", 1002)+strings.Repeat("appended", 50)+"x", text)
	require.True(t, complete)
}

func TestAReaderUnpacksOneMemberOfAJoinedObjectAtATime(t *testing.T) {
	m, s, id := openMemory(t)
	for i := range int64(20) {
		require.NoError(t, s.Write(t.Context(), id, i*MaxWrite, make([]byte, MaxWrite)))
	}
	tidy(t, m, s, id)
	require.Less(t, m.count(directory(id)+"joined"), 4)
	r := s.Reader(id, 0)
	for {
		part, err := r.Next(t.Context())
		if errors.Is(err, ErrNotYet) {
			break
		}
		require.NoError(t, err)
		require.LessOrEqual(t, len(part.Data), MaxWrite)
	}
	require.Equal(t, int64(20*MaxWrite), r.at)
}

// An interrupted bucket runs a function before each call, and may fail after it.
type interrupted struct {
	storage.Bucket
	before func(list bool) (killed bool)
	after  func() (killed bool)
}

func (i *interrupted) run(list bool, call func() error) error {
	if i.before(list) {
		return errKilled
	}
	err := call()
	if i.after() {
		return errKilled
	}
	return err
}

// Create implements storage.Bucket.
func (i *interrupted) Create(ctx context.Context, key string, content []byte) error {
	return i.run(false, func() error { return i.Bucket.Create(ctx, key, content) })
}

// Read implements storage.Bucket.
func (i *interrupted) Read(ctx context.Context, key string) (content []byte, err error) {
	err = i.run(false, func() error { content, err = i.Bucket.Read(ctx, key); return err })
	return content, err
}

// List implements storage.Bucket. Others continue between the pages of a listing.
func (i *interrupted) List(ctx context.Context, directory string) (list []storage.Object, err error) {
	return i.pages(func() ([]storage.Object, error) { return i.Bucket.List(ctx, directory) })
}

// Walk implements storage.Bucket. Others continue between its pages.
func (i *interrupted) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	list, err := i.pages(func() (list []storage.Object, err error) {
		err = i.Bucket.Walk(ctx, directory, after, func(o storage.Object) bool {
			list = append(list, o)
			return true
		})
		return list, err
	})
	return passOn(list, err, each)
}

// pages returns a listing whose second page is listed later than its first one.
func (i *interrupted) pages(all func() ([]storage.Object, error)) (list []storage.Object, err error) {
	page, err := all()
	if len(page) > 0 {
		page = page[:1+len(page)/3]
	}
	err = errors.Join(err, i.run(true, func() error { list, err = all(); return err }))
	list = slices.DeleteFunc(list, func(o storage.Object) bool { return len(page) > 0 && o.Name <= page[len(page)-1].Name })
	return append(page, list...), err
}

// Each implements storage.Bucket.
func (i *interrupted) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	list, err := i.List(ctx, directory)
	return passOn(list, err, each)
}

// DeleteAll implements storage.Bucket. Others continue between two objects, whose order nobody
// knows.
func (i *interrupted) DeleteAll(ctx context.Context, keys []string) error {
	for _, at := range rand.New(rand.NewPCG(uint64(len(keys)), 1)).Perm(len(keys)) {
		if err := i.Delete(ctx, keys[at]); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements storage.Bucket.
func (i *interrupted) Delete(ctx context.Context, key string) error {
	return i.run(false, func() error { return i.Bucket.Delete(ctx, key) })
}

// An oracle remembers each write, and neither joins nor deletes.
type oracle struct {
	data  []byte // what counts
	have  []bool
	drops []bool
}

func (o *oracle) write(from int64, data []byte) {
	for i, b := range data {
		if at := from + int64(i); !o.have[at] {
			o.data[at], o.have[at] = b, true
		}
	}
}

// text returns what readers have to get up to an offset.
func (o *oracle) text(from, to int64) string {
	var text strings.Builder
	for at := from; at < to; at++ {
		switch {
		case o.have[at]:
			text.WriteByte(o.data[at])
		case o.drops[at]:
			text.WriteByte('.')
		default:
			text.WriteByte('?')
		}
	}
	return text.String()
}

// A world interleaves the work of several replicas in one thread: while one replica waits
// for the storage, others continue.
type world struct {
	t      *testing.T
	random *rand.Rand
	memory *memory
	plain  *Store // that of readers and writers
	id     string
	oracle oracle
	sent   map[Range][]byte
	first  []time.Time // by offset, when its first byte was written
	others []string    // by offset, all bytes that were written
	total  int64
	reader *Reader // one that goes on
	masks  masksOf // what it masks
	depth  int

	trims     bool
	redacting *redactions // nil if nothing is redacted
	erases    bool
	following bool
	frozen    bool // while somebody lists, no minute passes
}

// busy returns a replica that others interrupt, and that fails at one of some calls.
func (w *world) busy(failures int) *Store {
	s := *w.plain
	s.layouts = newLayoutCache() // of another process
	killed := func() bool { return failures > 0 && w.random.IntN(failures) == 0 }
	s.bucket = &interrupted{w.memory, func(list bool) bool {
		if w.depth < 3 && w.random.IntN(12) == 0 {
			before := w.frozen
			w.frozen = before || list
			w.depth++
			for range 1 + w.random.IntN(4) {
				w.act()
			}
			w.depth--
			w.frozen = before
		}
		return killed()
	}, killed}
	return &s
}

func (w *world) pass() {
	w.memory.now = w.memory.now.Add(time.Second)
	if !w.frozen {
		w.memory.now = w.memory.now.Add(time.Duration(w.random.Int64N(int64(4 * time.Minute))))
	}
}

func (w *world) act() {
	w.pass()
	from := w.random.Int64N(w.total)
	to := min(w.total, from+1+w.random.Int64N(12))
	switch w.random.IntN(10) {
	case 0:
		require.NoError(w.t, w.plain.Drop(w.t.Context(), w.id, Range{from, to}))
		for at := from; at < to; at++ {
			w.oracle.drops[at] = true
		}
	case 1, 2:
		_, err := w.busy(150).Tidy(w.t.Context(), w.id, w.memory.now, 0)
		if err != nil {
			require.ErrorIs(w.t, err, errKilled)
		}
	case 3:
		if w.redacting != nil && w.random.IntN(2) == 0 {
			w.redact(Range{from, to})
			return
		}
		w.read(from)
	case 4:
		w.follow()
	case 5:
		if w.erases && w.random.IntN(6) == 0 {
			w.erase()
			return
		}
		if w.trims && w.random.IntN(4) == 0 {
			_, err := w.busy(20).Trim(w.t.Context(), w.id, w.memory.now, w.memory.bytes(directory(w.id))*9/10)
			if err != nil {
				require.ErrorIs(w.t, err, errKilled)
			}
			return
		}
		fallthrough
	default:
		data := make([]byte, to-from)
		for i := range data {
			data[i] = byte('a' + w.random.IntN(26))
		}
		if sent := w.sent[Range{from, to}]; sent != nil {
			data = sent // a repeated request has the same bytes
		}
		w.sent[Range{from, to}] = data
		key := directory(w.id) + "data/" + rangeName(Range{from, to})
		_, exists := w.memory.objects[key]
		require.NoError(w.t, w.plain.Write(w.t.Context(), w.id, from, data))
		if !exists {
			w.noteSent(from, data)
			w.oracle.write(from, data)
		}
	}
}

// erase erases the stream, or what came after a former erasure.
func (w *world) erase() {
	_, err := w.busy(20).Erase(w.t.Context(), w.id, stdout)
	if err == nil && w.random.IntN(2) == 0 {
		_, err = w.busy(20).FinishErasure(w.t.Context(), w.id, w.memory.now)
	}
	if err != nil {
		require.ErrorIs(w.t, err, errKilled)
	}
}

// hold holds the stream while something happens, or releases it.
func (w *world) hold(until int64) (held int64) {
	scope := HoldScope{Pod: stdout.Pod}
	if until < 0 {
		require.NoError(w.t, w.plain.Hold(w.t.Context(), stdout.Namespace, scope, "jane"))
		return w.trimmed()
	}
	if !w.erases { // which asks for holds at the API
		require.Equal(w.t, until, w.trimmed(), "what is held isn't trimmed")
	}
	_, err := w.plain.Release(w.t.Context(), stdout.Namespace, scope)
	require.NoError(w.t, err)
	return -1
}

// look compares what a flat listing says with what Tidy does.
func (w *world) look() {
	depth := w.depth
	defer func() { w.depth = depth }()
	w.depth = 3 // nobody else does anything
	require.NoError(w.t, w.plain.EachInventory(w.t.Context(), w.id[:1], func(of *Inventory) bool {
		found, isAtRest := w.plain.NewSweep(w.memory.now, false).Look(of, 0)
		done, err := w.plain.Tidy(w.t.Context(), w.id, w.memory.now, 0)
		require.NoError(w.t, err)
		require.Equal(w.t, isAtRest, done.Joined+done.Deleted == 0)
		if isAtRest {
			require.Equal(w.t, done, found)
		}
		return true
	}))
}

// noteSent notes what was written, before the oracle does.
func (w *world) noteSent(from int64, data []byte) {
	for i, b := range data {
		at := from + int64(i)
		if !w.oracle.have[at] {
			w.first[at] = w.memory.now
		}
		w.others[at] += string(b)
	}
}

// trimmed returns up to where the stream was trimmed.
func (w *world) trimmed() (to int64) {
	for key := range w.memory.objects {
		if r, ok := parseRangeName(path.Base(key)); ok && strings.HasPrefix(key, directory(w.id)+"trim/") {
			to = max(to, r.To)
		}
	}
	return to
}

// read reads everything while others continue. It has to find all bytes from before, and
// later reads have to find the same.
func (w *world) read(from int64) {
	before := oracle{w.oracle.data, slices.Clone(w.oracle.have), slices.Clone(w.oracle.drops)}
	r := w.busy(0).Reader(w.id, from)
	r.now = w.reader.now
	var masks masksOf
	for {
		masks.before(w)
		part, err := r.Next(w.t.Context())
		masks.after(r)
		if errors.Is(err, ErrNotYet) || errors.Is(err, io.EOF) {
			part.Range = Range{r.at, w.total}
		} else {
			require.NoError(w.t, err)
		}
		if part.Data != nil {
			masks.check(w, part)
			continue
		}
		if part.Deleted {
			require.LessOrEqual(w.t, part.To, w.trimmed())
			continue
		}
		for at := part.From; at < part.To; at++ {
			require.False(w.t, before.have[at], "byte %d is there", at)
			require.False(w.t, before.drops[at] && !part.Dropped, "byte %d was dropped", at)
		}
		if err != nil {
			return
		}
	}
}

// follow reads some more parts, with a layout that may be old.
func (w *world) follow() {
	if w.following {
		return
	}
	w.following = true
	defer func() { w.following = false }()
	for range w.random.IntN(10) {
		w.masks.before(w)
		part, err := w.reader.Next(w.t.Context())
		w.masks.after(w.reader)
		if errors.Is(err, ErrNotYet) || errors.Is(err, io.EOF) {
			w.reader.at = w.random.Int64N(w.total)
			return
		}
		require.NoError(w.t, err)
		if part.Data != nil {
			w.masks.check(w, part)
		}
	}
}

func runWorld(t *testing.T, seed uint64, trims, redacts, erases bool) {
	m, s, id := openMemory(t)
	random := rand.New(rand.NewPCG(seed, 1))
	total := 50 + random.Int64N(400)
	w := &world{t: t, random: random, memory: m, plain: s, id: id, sent: map[Range][]byte{}, first: make([]time.Time, total), others: make([]string, total), total: total, trims: trims, erases: erases}
	if redacts {
		w.redacting = &redactions{sure: make([]bool, total), maybe: make([]bool, total)}
	}
	w.reader = w.busy(0).Reader(id, 0)
	w.oracle = oracle{make([]byte, total), make([]bool, total), make([]bool, total)}
	w.reader.now = func() time.Time { return m.now.Add(time.Hour) }
	held := int64(-1)
	for range 400 {
		w.act()
		if (trims || erases) && random.IntN(40) == 0 {
			held = w.hold(held)
		}
		if random.IntN(20) == 0 {
			w.look()
		}
	}
	require.NoError(t, s.End(t.Context(), id, total))
	w.read(0)
	w.depth = 3 // nobody does anything any more
	tidy(t, m, s, id)
	w.read(0)
	text, complete := textOf(t, m, s, id, 0)
	trimmed := w.trimmed()
	require.Equal(t, strings.Repeat("-", int(trimmed))+w.redacting.mask(w.oracle.text(trimmed, total), trimmed, m, id), text)
	require.True(t, complete)
	requireMasked(t, m, id)
	cut := 0 // objects that are partly trimmed
	for key := range m.objects {
		if p, ok := pieceOf(storage.Object{Name: path.Base(key)}, "data"); ok && strings.HasPrefix(key, directory(id)+"data") && p.object.From < trimmed {
			cut++
		}
	}
	gaps := strings.Count(text, "?")
	require.LessOrEqual(t, m.count(directory(id)+"data"), gaps+strings.Count(text, ".")+1+cut, "what touches is joined")
}

// seeds returns the number of random worlds: 12, or 3 with -short.
func seeds() uint64 {
	if testing.Short() {
		return 3
	}
	return 12
}

func TestJoiningChangesNothingForReaders(t *testing.T) {
	for seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runWorld(t, seed, false, false, false) })
	}
}

func TestTrimmingChangesNothingBehindItForReaders(t *testing.T) {
	for seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runWorld(t, seed, true, false, false) })
	}
}

func TestErasingChangesNothingBehindItForReaders(t *testing.T) {
	for seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runWorld(t, seed, seed%2 == 0, false, true) })
	}
}

func FuzzJoining(f *testing.F) {
	f.Add(uint64(1), false, false, false)
	f.Add(uint64(1), true, false, false)
	f.Add(uint64(1), true, false, true)
	f.Add(uint64(1), true, true, false)
	f.Fuzz(runWorld)
}

func TestADamagedJoinedObjectIsAnErrorAndNoPanic(t *testing.T) {
	m, s, id := openMemory(t)
	for i := range int64(20) {
		require.NoError(t, s.Write(t.Context(), id, i, []byte("a")))
	}
	tidy(t, m, s, id)
	key := directory(id) + "joined/" + rangeName(Range{0, 20})
	whole := m.objects[key].content
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		damaged := bytes.Clone(whole[:cmp.Or(random.IntN(len(whole)), len(whole))])
		damaged[random.IntN(len(damaged))] ^= byte(1 + random.IntN(255))
		m.objects[key] = stored{damaged, m.objects[key].written}
		r := s.Reader(id, 0)
		for {
			part, err := r.Next(t.Context())
			if err != nil {
				break
			}
			require.Equal(t, strings.Repeat("a", int(part.Len())), string(part.Data))
		}
	}
}

func TestMarkersStayFewWhileBytesAreBeingDropped(t *testing.T) {
	for name, test := range map[string]struct {
		pause  time.Duration // between two markers
		stored int64         // bytes that are stored between them
	}{
		"a marker a second":                 {time.Second, 0},
		"a few between two sweeps":          {2 * time.Minute, 0},
		"in turns with bytes that are kept": {10 * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			m, s, id := openMemory(t)
			var at int64
			most, swept := 0, m.now
			var want strings.Builder
			for m.now.Before(time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)) {
				m.now = m.now.Add(test.pause)
				require.NoError(t, s.Drop(t.Context(), id, Range{at, at + 5}))
				want.WriteString(".....")
				if at += 5; test.stored > 0 {
					require.NoError(t, s.Write(t.Context(), id, at, []byte("xyz")))
					want.WriteString("xyz")
					at += test.stored
				}
				if m.now.Sub(swept) >= 5*time.Minute {
					_, err := s.Tidy(t.Context(), id, m.now, 0)
					require.NoError(t, err)
					swept, most = m.now, max(most, m.count(directory(id)+"drop"))
				}
			}
			require.Less(t, most, 2*int((settleTime+5*time.Minute)/test.pause)+2*minGroup, "those that aren't settled yet, and some")
			text, _ := textOf(t, m, s, id, 0)
			require.Equal(t, want.String(), text)
		})
	}
}

// storageObject returns an object as a listing has it.
func storageObject(name string, o stored) storage.Object {
	return storage.Object{Name: name, Size: int64(len(o.content)), Written: o.written}
}
