// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/secretfiles"
)

// anyPod authenticates every token as the same pod.
type anyPod struct{}

var errNobodyReads = errors.New("these tests read the streams themselves")

func (anyPod) Writer(context.Context, string) (api.Pod, error) {
	return api.Pod{Namespace: "tenant", Name: "pod", UID: "uid"}, nil
}

// Beginner implements api.Authenticator.
func (a anyPod) Beginner(ctx context.Context, token string) (api.Pod, error) {
	return a.Writer(ctx, token)
}

func (anyPod) Reader(context.Context, string) (api.User, error) { return api.User{}, errNobodyReads }

func (anyPod) MayRead(context.Context, api.User, string, string) error { return errNobodyReads }

func (anyPod) Namespace(context.Context, string) (api.Namespace, error) {
	return api.Namespace{}, errNobodyReads
}

// A chain is everything that bytes pass through: a ring, a shipper and the log service. A
// test can answer requests in the place of the service.
type chain struct {
	t       *testing.T
	writer  *ring.Writer
	reader  *ring.Reader
	shipper *shipper
	store   *streams.Store

	between  func(w http.ResponseWriter, r *http.Request) (done bool)
	underWay atomic.Int64
	together atomic.Int64 // the most requests that were under way
}

func newChain(t *testing.T, sources secretSources, between func(http.ResponseWriter, *http.Request) bool) *chain {
	t.Helper()
	files, err := storage.OpenFiles(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	store, err := streams.Open(t.Context(), files)
	require.NoError(t, err)
	c := &chain{t: t, store: store, between: between}
	service := api.New(store, anyPod{}, slog.New(slog.DiscardHandler)).Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer c.underWay.Add(-1)
		if now := c.underWay.Add(1); now > c.together.Load() {
			c.together.Store(now)
		}
		if !c.between(w, r) {
			service.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	memory, fd, err := ring.Create(ring.DefaultCapacity)
	require.NoError(t, err)
	opened, err := ring.Open(fd)
	require.NoError(t, err)
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = unix.Close(fd), unix.Close(wake) })
	c.writer, c.reader = memory.Writer(), opened.Reader()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("token"), 0o600))
	sends := &client{address: server.URL, token: token, container: "main", start: "1", http: server.Client(), compressor: gzip.NewWriter(nil)}
	reason := &failure{ring: c.reader, news: wake}
	c.shipper = newShipper(c.reader, sends, newSecrets(sources, nil, nil, reason.set), reason, wake)
	return c
}

// print writes bytes to stdout once the shipper has read enough for none to be lost.
func (c *chain) print(data []byte) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		at := c.reader.Progress(ring.Stdout).At
		return c.writer.Written(ring.Stdout)+int64(len(data))-at <= ring.DefaultCapacity
	}, time.Minute, time.Millisecond, "the shipper doesn't come on")
	c.write(data)
}

// write writes bytes to stdout.
func (c *chain) write(data []byte) {
	c.writer.Write(ring.Stdout, data)
	c.wakeUp()
}

func (c *chain) wakeUp() {
	if c.writer.ClaimWake() {
		_, err := unix.Write(c.shipper.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		require.NoError(c.t, err)
	}
}

// end ends all streams.
func (c *chain) end() {
	for _, s := range ring.Streams {
		c.writer.End(s)
	}
	c.wakeUp()
}

// ship runs the shipper, beside a function that prints, until the service has all
// streams.
func (c *chain) ship(printing func()) {
	c.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.shipper.run()
	}()
	printing()
	c.end()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(c.t, "the service lacks something after a minute", "%+v: %s", c.reader.Progress(ring.Stdout), c.writer.Failure())
	}
	require.Empty(c.t, c.writer.Failure())
}

// requireAll compares stdout at the service with what was printed: each byte is stored,
// or marked as dropped.
func (c *chain) requireAll(printed []byte) (lost int64) {
	c.t.Helper()
	id, err := c.store.Create(c.t.Context(), streams.Source{Namespace: "tenant", Pod: "pod", PodUID: "uid", Container: "main", Start: "1", Name: "stdout"})
	require.NoError(c.t, err)
	state, err := c.store.State(c.t.Context(), id)
	require.NoError(c.t, err)
	require.True(c.t, state.Complete)
	require.EqualValues(c.t, len(printed), state.Total)
	require.Empty(c.t, state.Missing)
	require.EqualValues(c.t, len(printed), state.Stored.Len()+state.Dropped.Len())
	reader := c.store.Reader(id, 0)
	for {
		part, err := reader.Next(c.t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(c.t, err)
		if part.Data != nil {
			require.True(c.t, bytes.Equal(printed[part.From:part.To], part.Data), "bytes %d to %d are others", part.From, part.To-1)
		}
	}
	progress, closed := c.writer.ReaderProgress(ring.Stdout)
	require.True(c.t, closed)
	require.EqualValues(c.t, len(printed), progress.At)
	require.GreaterOrEqual(c.t, progress.Dropped, state.Dropped.Len())
	return state.Dropped.Len()
}

// numbered is text of which no two pieces are the same.
func numbered(size int) []byte {
	var text []byte
	for len(text) < size {
		text = fmt.Appendf(text, "%09d\n", len(text))
	}
	return text[:size]
}

// sends reports whether a request stores bytes.
func sends(r *http.Request) bool {
	return r.Method == http.MethodPatch && !strings.HasPrefix(r.Header.Get("Content-Range"), "bytes */")
}

// some has the given answers in the place of the service's, by the number of the request
// that stores bytes.
func some(answers map[int64]func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !sends(r) {
			return false
		}
		answer := answers[count.Add(1)]
		if answer != nil {
			answer(w)
		}
		return answer != nil
	}
}

func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

func cut(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func TestEachByteIsStoredOnceWhateverTheResponsesToTwoPartsInFlight(t *testing.T) {
	t.Parallel()
	printed := numbered(3 << 20)
	for name, between := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"all of it":          func(http.ResponseWriter, *http.Request) bool { return false },
		"one fails":          some(map[int64]func(http.ResponseWriter){4: status(503)}),
		"the next one fails": some(map[int64]func(http.ResponseWriter){5: status(503)}),
		"both fail":          some(map[int64]func(http.ResponseWriter){6: status(500), 7: status(502)}),
		"several fail":       some(map[int64]func(http.ResponseWriter){1: status(503), 2: status(503), 5: status(503), 6: status(503), 7: status(503), 9: status(503)}),
		"connections break":  some(map[int64]func(http.ResponseWriter){3: cut, 6: cut, 7: cut}),
		"a stream is lost":   some(map[int64]func(http.ResponseWriter){4: status(404), 5: status(404), 9: status(404)}),
		"a token is too old": some(map[int64]func(http.ResponseWriter){4: status(401), 5: status(401)}),
		"it is busy":         some(map[int64]func(http.ResponseWriter){4: status(429, "Retry-After", "1"), 7: status(429, "Retry-After", "1")}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t, secretSources{}, func(w http.ResponseWriter, r *http.Request) bool {
				time.Sleep(rand.N(20 * time.Millisecond)) // so answers come in any order
				return between(w, r)
			})
			c.ship(func() {
				for rest := printed; len(rest) > 0; rest = rest[16<<10:] {
					c.print(rest[:16<<10])
				}
			})
			require.Zero(t, c.requireAll(printed))
			require.LessOrEqual(t, c.together.Load(), int64(maxInFlight))
		})
	}
}

// The second part is stored long before the first one.
func TestNoProgressIsSavedBeyondAPartThatTheServiceLacks(t *testing.T) {
	t.Parallel()
	printed := numbered(2 * batchSize)
	var first atomic.Bool
	hold, second := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := newChain(t, secretSources{}, nil)
	var ends atomic.Int64
	c.between = func(_ http.ResponseWriter, r *http.Request) bool {
		switch at := r.Header.Get("Content-Range"); {
		case strings.HasPrefix(at, "bytes 10-") && first.CompareAndSwap(false, true):
			<-hold
		case strings.HasPrefix(at, fmt.Sprintf("bytes %d-", batchSize+10)):
			once.Do(func() { time.AfterFunc(200*time.Millisecond, func() { close(second) }) })
		case strings.HasPrefix(at, "bytes */"):
			ends.Add(1)
		}
		return false
	}
	c.ship(func() {
		c.print(printed[:10]) // which makes the stream
		require.Eventually(t, func() bool { return c.reader.Progress(ring.Stdout).At == 10 }, time.Minute, time.Millisecond)
		c.print(printed[10:])
		c.end()
		<-second
		require.EqualValues(t, 10, c.reader.Progress(ring.Stdout).At, "another shipper would begin there")
		require.Zero(t, ends.Load(), "a stream that lacks bytes isn't complete")
		close(hold)
	})
	require.Zero(t, c.requireAll(printed))
}

// All parts behind the first are stored before the service responds to the first.
func TestAPartWhoseResponseComesLastIsSentAgainOrMarked(t *testing.T) {
	t.Parallel()
	const part = 10 + window*batchSize
	printed := numbered(part + 10)
	for code, lost := range map[int]int64{http.StatusServiceUnavailable: 0, http.StatusNotFound: 0, http.StatusRequestEntityTooLarge: batchSize} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			var first atomic.Bool
			var behind atomic.Int64
			c := newChain(t, secretSources{}, func(w http.ResponseWriter, r *http.Request) bool {
				at := r.Header.Get("Content-Range")
				if strings.HasPrefix(at, "bytes 10-") && first.CompareAndSwap(false, true) {
					for began := time.Now(); behind.Load() < window-1 && time.Since(began) < retries.RequestTimeout/2; {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(100 * time.Millisecond) // the last of them is stored meanwhile
					w.WriteHeader(code)
					return true
				}
				if sends(r) && !strings.HasPrefix(at, "bytes 0-") && !strings.HasPrefix(at, "bytes 10-") {
					behind.Add(1)
				}
				return false
			})
			c.ship(func() {
				c.print(printed[:10]) // which makes the stream
				require.Eventually(t, func() bool { return c.reader.Progress(ring.Stdout).At == 10 }, time.Minute, time.Millisecond)
				c.print(printed[10:part])
				require.Eventually(t, func() bool { return c.reader.Progress(ring.Stdout).At == part }, time.Minute, time.Millisecond)
				c.print(printed[part:]) // what is taken again is no failure any longer
			})
			require.Equal(t, lost, c.requireAll(printed))
			require.GreaterOrEqual(t, behind.Load(), int64(window-1), "those behind were sent before")
		})
	}
}

func TestOneRefusedPartOfTwoInFlightIsMarked(t *testing.T) {
	t.Parallel()
	printed := numbered(5 << 20)
	between := some(map[int64]func(http.ResponseWriter){4: status(413), 8: status(413), 9: status(400)})
	c := newChain(t, secretSources{}, between)
	c.ship(func() {
		for rest := printed; len(rest) > 0; rest = rest[16<<10:] {
			c.print(rest[:16<<10])
		}
	})
	lost := c.requireAll(printed)
	require.Positive(t, lost)
	require.LessOrEqual(t, lost, int64(3*batchSize))
	require.Equal(t, lost, c.reader.Progress(ring.Stdout).Dropped, "and the status says so")
}

func TestBytesThatTheRingLosesWhileTwoPartsAreInFlightAreMarked(t *testing.T) {
	t.Parallel()
	printed := numbered(12 << 20)
	c := newChain(t, secretSources{}, func(_ http.ResponseWriter, r *http.Request) bool {
		if sends(r) {
			time.Sleep(rand.N(20 * time.Millisecond))
		}
		return false
	})
	c.ship(func() {
		for rest := printed; len(rest) > 0; rest = rest[3<<20:] {
			c.write(rest[:3<<20])
			time.Sleep(rand.N(50 * time.Millisecond))
		}
	})
	require.Positive(t, c.requireAll(printed))
}

// A stream with much output doesn't starve the other two.
func TestAStreamWithMuchToSendDoesNotStarveTheOthers(t *testing.T) {
	t.Parallel()
	printed := numbered(6 << 20)
	var small atomic.Int64
	c := newChain(t, secretSources{}, func(_ http.ResponseWriter, r *http.Request) bool {
		if sends(r) {
			time.Sleep(5 * time.Millisecond)
		}
		if r.Header.Get("Content-Range") == "bytes 0-4/*" {
			small.Add(1)
		}
		return false
	})
	c.ship(func() {
		for rest := printed; len(rest) > 0; rest = rest[16<<10:] {
			if len(rest) == 5<<20 {
				c.writer.Write(ring.Stderr, []byte("hello"))
			}
			c.print(rest[:16<<10])
			if len(rest) == 16<<10 {
				require.Eventually(t, func() bool {
					c.wakeUp()
					return small.Load() > 0
				}, time.Minute, time.Millisecond)
			}
		}
	})
	require.Zero(t, c.requireAll(printed))
}

// Bytes that were masked before a secret was known are masked again.
func TestASecretThatAppearsWhilePartsFailIsMaskedInThem(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	var refused atomic.Int64
	var come atomic.Bool
	c := newChain(t, secretSources{paths: []string{file}}, func(w http.ResponseWriter, r *http.Request) bool {
		if !sends(r) || come.Load() {
			return false
		}
		refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	secret := []byte("open sesame")
	text := bytes.Repeat([]byte("it says open sesame!\n"), 30_000)
	c.ship(func() {
		c.print(text)
		require.Eventually(t, func() bool { return refused.Load() > 0 }, time.Minute, time.Millisecond)
		require.NoError(t, os.WriteFile(file, secret, 0o600))
		come.Store(true)
	})
	require.Zero(t, c.requireAll(bytes.ReplaceAll(text, secret, bytes.Repeat([]byte("*"), len(secret)))))
}

// A file changes while a part waits for a response, is inspected, and changes again before
// the next part is sent.
func TestASecretThatAppearsWhileAPartIsInFlightIsMaskedInTheNextPart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	hold := make(chan struct{})
	var held atomic.Bool
	c := newChain(t, secretSources{paths: []string{file}}, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.Header.Get("Content-Range"), "bytes 10-") && held.CompareAndSwap(false, true) {
			<-hold
		}
		return false
	})
	secret := []byte("open sesame")
	text := numbered(10 + 2*batchSize)
	last := []byte("it says open sesame!\n")
	c.ship(func() {
		c.print(text[:10])
		require.Eventually(t, func() bool { return c.reader.Progress(ring.Stdout).At == 10 }, time.Minute, time.Millisecond)
		c.print(text[10 : 10+batchSize])
		require.Eventually(t, held.Load, time.Minute, time.Millisecond)
		require.NoError(t, os.WriteFile(file, []byte("another secret"), 0o600))
		c.print(text[10+batchSize:]) // it is due, so the file is looked at
		time.Sleep(2 * longestRest)
		require.NoError(t, os.WriteFile(file, secret, 0o600))
		c.print(last)
		time.Sleep(100 * time.Millisecond)
		close(hold)
	})
	require.Zero(t, c.requireAll(slices.Concat(text, bytes.ReplaceAll(last, secret, bytes.Repeat([]byte("*"), len(secret))))))
}

// The file changes again, and its content is printed, after the secrets for a part were
// loaded.
func TestBytesThatCameAfterTheSecretsWereLoadedWaitForTheNextOnes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	c := newChain(t, secretSources{paths: []string{file}}, func(http.ResponseWriter, *http.Request) bool { return false })
	fd, err := ring.CreateSnapshot()
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	c.shipper.secrets.snapshot, err = ring.OpenSnapshot(fd)
	require.NoError(t, err)
	supervisor := secretfiles.NewWitness([]string{file}, c.shipper.secrets.snapshot)
	stdout := c.shipper.senders[ring.Stdout]
	say := func(secret string) (masked string) {
		require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
		require.NoError(t, supervisor.Inspect())
		c.write([]byte("it says " + secret + "\n"))
		return "it says " + strings.Repeat("*", len(secret)) + "\n"
	}
	want := say("open sesame")
	stdout.prepare(time.Now())
	c.shipper.sendPart(stdout)
	require.True(t, stdout.secretsReloaded, "the first secret is loaded")
	want += say("open barley")
	c.ship(func() {})
	require.Zero(t, c.requireAll([]byte(want)))
}
