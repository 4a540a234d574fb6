// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A sidecar is a server that exits after a POST, as Istio's does.
type sidecar struct {
	url   string
	posts atomic.Int32
	quit  chan struct{} // closed at the first POST
}

func newSidecar(t *testing.T) *sidecar {
	t.Helper()
	s := &sidecar{quit: make(chan struct{})}
	s.url = "http://:" + server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.RequestURI != "/quitquitquit" || r.ContentLength != 0 {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if s.posts.Add(1) == 1 {
			close(s.quit)
		}
	}) + "/quitquitquit"
	return s
}

func (s *sidecar) isAsked(t *testing.T) {
	t.Helper()
	select {
	case <-s.quit:
	case <-time.After(deadline):
		require.Fail(t, "the sidecar got no request")
	}
}

// finalCodes are the exit codes after which a container isn't restarted.
var finalCodes = map[string]string{"completed": "0", "exited": "0-255"}

// mates are the order directories of containers that work, by name.
func mates(t *testing.T, names ...string) map[string]string {
	t.Helper()
	dirs := map[string]string{}
	for _, name := range names {
		dirs[name] = filepath.Join(t.TempDir(), name)
		require.NoError(t, os.Mkdir(dirs[name], 0o755))
	}
	return dirs
}

// mate returns one of several working containers, which end the sidecar when all of
// them have ended in this way.
func mate(t *testing.T, dirs map[string]string, name, end, url string, command ...string) *process {
	t.Helper()
	argv := []string{entrypoint, "-order-dir=" + dirs[name], "-end-sidecar=" + url, "-end-sidecars-on=" + finalCodes[end]}
	for other, dir := range dirs {
		if other != name {
			argv = append(argv, "-end-sidecars-when="+end+":"+dir)
		}
	}
	return begin(t, append(append(argv, "--"), command...))
}

// alone is the only working container.
func alone(t *testing.T, end, url string, args ...string) *process {
	t.Helper()
	return begin(t, append([]string{entrypoint, "-end-sidecar=" + url, "-end-sidecars-on=" + finalCodes[end]}, args...))
}

func TestTheOnlyWorkingContainerEndsTheSidecar(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end   string
		args  []string
		code  int
		posts int32
	}{
		"a success":                       {"completed", []string{"--", "true"}, 0, 1},
		"a failure that is restarted":     {"completed", []string{"--", "false"}, 1, 0},
		"a failure that isn't":            {"exited", []string{"--", "false"}, 1, 1},
		"a code that counts as success":   {"completed", []string{"-success-exit-codes=3", "--", "sh", "-c", "exit 3"}, 0, 1},
		"a command that is killed":        {"exited", []string{"--", "sh", "-c", "kill -9 $$"}, 128 + 9, 1},
		"a command that takes too long":   {"exited", []string{"-timeout=50ms", "--", "sleep", "60"}, 124, 1},
		"a command that isn't there":      {"exited", []string{"--", "/missing"}, 127, 1},
		"a hook that fails":               {"exited", []string{"-before-start=false", "--", "true"}, 1, 1},
		"no command for this platform":    {"exited", []string{"-platform=linux/s390x", "-arg=true", "-platform=linux/ppc64le", "-arg=true", "--"}, 125, 1},
		"a command that leaves something": {"exited", []string{"--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & exit 0"}, 0, 1},
		"a wait that has taken too long":  {"exited", []string{"-wait-for=tcp://127.0.0.1:1", "-depends-on-timeout=50ms", "--", "true"}, 124, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSidecar(t)
			p := alone(t, test.end, s.url, test.args...)
			require.Equal(t, test.code, p.end())
			require.Equal(t, test.posts, s.posts.Load())
			for _, line := range p.kill(0) {
				require.NotContains(t, line, "sidecar")
			}
		})
	}
}

func TestTheLastOfSeveralContainersEndsTheSidecar(t *testing.T) {
	t.Parallel()
	s, dirs := newSidecar(t), mates(t, "a", "b", "c")
	await := func(file string) []string {
		return []string{"sh", "-c", "until [ -e " + file + " ]; do sleep 0.01; done"}
	}
	last := filepath.Join(t.TempDir(), "last")
	a := mate(t, dirs, "a", "exited", s.url, "false")
	b := mate(t, dirs, "b", "exited", s.url, await(last)...)
	c := mate(t, dirs, "c", "exited", s.url, "sleep", "60")
	require.Equal(t, 1, a.end())
	hasSaid(t, dirs["c"], "started")
	c.kill(c.Process.Pid) // a killed container has ended, too
	require.Zero(t, s.posts.Load())
	create(t, last)
	require.Zero(t, b.end())
	require.EqualValues(t, 1, s.posts.Load())
}

// TestARestartedContainerCountsOnceItHasCompleted. A container that hasn't started yet
// keeps the sidecar running, too.
func TestARestartedContainerCountsOnceItHasCompleted(t *testing.T) {
	t.Parallel()
	s, dirs := newSidecar(t), mates(t, "a", "b")
	require.Zero(t, mate(t, dirs, "a", "completed", s.url, "true").end())
	require.Equal(t, 1, mate(t, dirs, "b", "completed", s.url, "false").end())
	require.Zero(t, s.posts.Load())
	require.Zero(t, mate(t, dirs, "b", "completed", s.url, "true").end())
	require.EqualValues(t, 1, s.posts.Load())
}

func TestOfTwoConcurrentEndsAtLeastOneEndsTheSidecar(t *testing.T) {
	t.Parallel()
	for range 40 {
		s, dirs := newSidecar(t), mates(t, "a", "b")
		gate := filepath.Join(t.TempDir(), "gate")
		require.NoError(t, os.Mkdir(gate, 0o755))
		wait := []string{"sh", "-c", "while [ -d " + gate + " ]; do :; done"}
		a, b := mate(t, dirs, "a", "exited", s.url, wait...), mate(t, dirs, "b", "exited", s.url, wait...)
		hasSaid(t, dirs["a"], "started")
		hasSaid(t, dirs["b"], "started")
		require.NoError(t, os.Remove(gate))
		require.Zero(t, a.end())
		require.Zero(t, b.end())
		s.isAsked(t)
	}
}

// TestTheEndIsPublishedAfterAllOtherWork, because that work may need the sidecar.
func TestTheEndIsPublishedAfterAllOtherWork(t *testing.T) {
	t.Parallel()
	s, dirs := newSidecar(t), mates(t, "a", "b")
	paused := begin(t, []string{
		entrypoint, "-order-dir=" + dirs["a"], "-end-sidecar=" + s.url, "-end-sidecars-on=0-255", "-end-sidecars-when=exited:" + dirs["b"],
		"-pause=after-failure", "--", "false",
	})
	require.Contains(t, paused.line(), "paused after-failure")
	require.Zero(t, mate(t, dirs, "b", "exited", s.url, "true").end())
	require.Zero(t, s.posts.Load())
	paused.send(18) // SIGCONT
	require.Equal(t, 1, paused.end())
	require.EqualValues(t, 1, s.posts.Load())
}

// hostileSidecar answers each connection in this way.
func hostileSidecar(t *testing.T, answer func(net.Conn)) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		var open []net.Conn // the runtime closes a connection that nobody refers to
		defer func() {
			for _, c := range open {
				_ = c.Close()
			}
		}()
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			open = append(open, c)
			go answer(c)
		}
	}()
	return "http://" + listener.Addr().String() + "/"
}

func afterReading(then func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		then(c)
	}
}

func saying(text string) func(net.Conn) {
	return afterReading(func(c net.Conn) {
		_, _ = c.Write([]byte(text))
		_ = c.Close()
	})
}

// TestASidecarThatDoesNotListenIsLeftAlone: it costs a few seconds at most and is
// reported once, and the container's exit code is the command's.
func TestASidecarThatDoesNotListenIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(net.Conn) // nil: no server listens
		says   string
	}{
		"no server":             {nil, "connection refused"},
		"never answers":         {func(net.Conn) {}, "it took longer than 2s"},
		"closes":                {afterReading(func(c net.Conn) { _ = c.Close() }), "the connection was closed without an answer"},
		"says half":             {saying("HTTP/1.1 "), "not HTTP"},
		"resets":                {func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }, "connection reset"},
		"has no such path":      {saying("HTTP/1.1 404 Not Found\r\n\r\n"), `the answer was "HTTP/1.1 404 Not Found\r"`},
		"sends elsewhere":       {saying("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"), `"HTTP/1.1 302 Found\r"`},
		"fails":                 {saying("HTTP/1.1 500 No\r\n\r\n"), `"HTTP/1.1 500 No\r"`},
		"speaks something else": {saying("SSH-2.0-x\r\n"), `"SSH-2.0-x\r"`},
		"sends much":            {saying(strings.Repeat("x", 1<<20)), "not HTTP"},
		"sends escapes":         {saying("HTTP/1.1 500 \x1b[2J\r\n\r\n"), `\x1b[2J`},
		"sends a byte now and then": {afterReading(func(c net.Conn) {
			for {
				if _, err := c.Write([]byte("H")); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}), "it took longer than 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "http://127.0.0.1:1/"
			if test.answer != nil {
				url = hostileSidecar(t, test.answer)
			}
			well := newSidecar(t)
			p := alone(t, "exited", url, "-end-sidecar="+well.url, "--", "sh", "-c", "exit 7")
			well.isAsked(t) // one sidecar doesn't delay the other
			require.Equal(t, 7, p.end())
			said := p.kill(0)
			require.Len(t, said, 1, said)
			require.Contains(t, said[0], "entrypointer: shutting down a sidecar by POST "+url+": ")
			require.Contains(t, said[0], test.says)
			require.EqualValues(t, 1, well.posts.Load())
		})
	}
}

// TestASidecarThatStartsLateIsEnded: one doesn't listen yet, one isn't ready for the
// request, and one exits without an answer.
func TestASidecarThatStartsLateIsEnded(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) (url string, asked func() bool){
		"it listens later": func(t *testing.T) (string, func() bool) {
			number, listen := port(t, "127.0.0.1")
			var posts atomic.Int32
			time.AfterFunc(time.Second, func() {
				_ = listen // the port is free again
				s := &http.Server{Addr: "127.0.0.1:" + number, ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { posts.Add(1) })}
				t.Cleanup(func() { _ = s.Close() })
				_ = s.ListenAndServe()
			})
			return "http://127.0.0.1:" + number + "/", func() bool { return posts.Load() == 1 }
		},
		"it isn't able to at first": func(t *testing.T) (string, func() bool) {
			var posts atomic.Int32
			number := server(t, func(w http.ResponseWriter, _ *http.Request) {
				if posts.Add(1) < 3 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			return "http://:" + number + "/", func() bool { return posts.Load() == 3 }
		},
		"it ends before it answers": func(t *testing.T) (string, func() bool) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			var ended atomic.Bool
			go func() {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 4096))
				_ = listener.Close()
				ended.Store(true)
				_ = c.Close()
			}()
			return "http://127.0.0.1:" + strconv.Itoa(listener.Addr().(*net.TCPAddr).Port) + "/", ended.Load
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, asked := begin(t)
			p := alone(t, "exited", url, "--", "true")
			require.Zero(t, p.end())
			require.True(t, asked())
			require.Empty(t, p.kill(0))
		})
	}
}

// TestASignalThatIsNoStopDoesNotShortenTheShutdownRequests: the command was told to
// reload.
func TestASignalThatIsNoStopDoesNotShortenTheShutdownRequests(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const unable = 4 // requests, which take longer than a second
			var posts atomic.Int32
			number := server(t, func(w http.ResponseWriter, _ *http.Request) {
				if posts.Add(1) <= unable {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			p := alone(t, "exited", "http://:"+number+"/", "--", "sh", "-c", "trap 'echo reloaded; exit 3' "+name+"; echo up; while :; do sleep 0.01; done")
			p.expect("up")
			p.send(sig)
			p.expect("reloaded")
			require.Equal(t, 3, p.end())
			require.EqualValues(t, unable+1, posts.Load())
			require.Empty(t, p.kill(0))
		})
	}
}

// TestAStopSignalShortensTheShutdownRequests, because the kubelet kills a container
// that doesn't end in time.
func TestAStopSignalShortensTheShutdownRequests(t *testing.T) {
	t.Parallel()
	tried := make(chan struct{}, 100)
	url := hostileSidecar(t, func(net.Conn) { tried <- struct{}{} })
	p := alone(t, "exited", url, "-end-sidecar="+url+"2", "--", "true")
	<-tried
	p.send(15)
	require.Zero(t, p.end())
	said := p.kill(0)
	require.Len(t, said, 2)
	for _, line := range said {
		require.Contains(t, line, "given up 1s after the stop signal")
	}

	s := newSidecar(t)
	p = alone(t, "exited", s.url, "--", "sh", "-c", "trap 'exit 3' TERM; echo trapped; while :; do sleep 0.01; done")
	p.expect("trapped")
	p.send(15)
	require.Equal(t, 3, p.end())
	require.EqualValues(t, 1, s.posts.Load(), "the signal may have been for this container only")
}
