// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A way is a probe, and how the command makes it succeed.
type readiness struct {
	flags  []string
	become func()
}

func TestTheSupervisorReportsWhyACommandIsNotReady(t *testing.T) {
	t.Parallel()
	for flags, why := range map[string]string{
		"-ready-exec=false":               "it exited with 1",
		"-ready-exec=/missing":            "no such file or directory",
		"-ready-exec=sleep -ready-exec=9": "it took longer than 1s",
		"-ready-file=/missing":            "no such file or directory",
		"-ready-tcp=127.0.0.1:1":          "connection refused",
		"-ready-http=http://127.0.0.1:" + server(t, http.NotFound) + "/": `the answer was "HTTP/1.1 404 Not Found\r"`,
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-order-dir=" + orderDir(t)}, strings.Fields(flags)...)
			cmd := exec.CommandContext(t.Context(), entrypoint, append(args, "--", "sleep", "60")...)
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			said, err := bufio.NewReader(stderr).ReadString('\n')
			require.NoError(t, err, "it has ended")
			require.Contains(t, said, "not ready after 10s")
			require.Contains(t, said, why)
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			require.Error(t, cmd.Wait())
			require.Equal(t, 128+15, cmd.ProcessState.ExitCode())
		})
	}
}

// TestAFileThatAnEarlierLifeLeftDoesNotCount: the command must create it, or move it to
// its place.
func TestAFileThatAnEarlierLifeLeftDoesNotCount(t *testing.T) {
	for name, deed := range map[string]string{
		"it is moved":            "mv new ready",
		"it is written":          "echo x >ready",
		"a link to it is made":   "ln -sf new ready",
		"it is removed at first": "rm ready; sleep 0.1; mv new ready",
	} {
		t.Run(name, func(t *testing.T) {
			dir, volume := orderDir(t), t.TempDir()
			for _, file := range []string{"ready", "new"} {
				create(t, volume+"/"+file)
			}
			time.Sleep(50 * time.Millisecond) // more than the kernel's tick
			dependency := db(t, dir, "-ready-period=10ms", "-ready-file="+volume+"/ready", "--",
				"sh", "-c", "cd "+volume+"; until [ -e go ]; do sleep 0.01; done; "+deed+"; exec sleep 60")
			hasSaid(t, dir, "started")
			p := web(t, dir, "-depends-on=ready")
			waits(t, p)
			create(t, volume+"/go")
			isStarted(t, p)
			dependency.kill(dependency.Process.Pid)
		})
	}
	// A file that the command creates at once is new, although file systems have a coarser
	// clock.
	for range 20 {
		dir, file := orderDir(t), t.TempDir()+"/ready"
		dependency := db(t, dir, "-ready-period=10ms", "-ready-file="+file, "--", "sh", "-c", ": >"+file+"; exec sleep 60")
		hasSaid(t, dir, "ready")
		dependency.kill(dependency.Process.Pid)
	}
}

// TestACommandIsReadyOnceItsProbeSucceeds and not before. Until then it counts as
// started, and containers that need it ready keep waiting.
func TestACommandIsReadyOnceItsProbeSucceeds(t *testing.T) {
	t.Parallel()
	for name, probe := range map[string]func(t *testing.T) readiness{
		"a command": func(t *testing.T) readiness {
			file := t.TempDir() + "/ready"
			return readiness{[]string{"-ready-exec=test", "-ready-exec=-e", "-ready-exec=" + file}, func() { create(t, file) }}
		},
		"a command that isn't there at first": func(t *testing.T) readiness {
			file := t.TempDir() + "/program"
			return readiness{[]string{"-ready-exec=" + file}, func() { require.NoError(t, os.Symlink("/bin/true", file)) }}
		},
		"a command that takes too long at first": func(t *testing.T) readiness {
			file := t.TempDir() + "/ready"
			return readiness{
				[]string{"-ready-exec=sh", "-ready-exec=-c", "-ready-exec=test -e " + file + " || { sleep 60 & sleep 60; }"},
				func() { create(t, file) },
			}
		},
		"a file": func(t *testing.T) readiness {
			file := t.TempDir() + "/ready"
			return readiness{[]string{"-ready-file=" + file}, func() { create(t, file) }}
		},
		"a port": func(t *testing.T) readiness {
			port, listen := port(t, "127.0.0.1")
			return readiness{[]string{"-ready-tcp=:" + port}, listen}
		},
		"a port of an address": func(t *testing.T) readiness {
			port, listen := port(t, "127.0.0.1")
			return readiness{[]string{"-ready-tcp=127.0.0.1:" + port}, listen}
		},
		"a port of IPv6": func(t *testing.T) readiness {
			port, listen := port(t, "::1")
			return readiness{[]string{"-ready-tcp=:" + port}, listen}
		},
		"a port of the pod's own address": func(t *testing.T) readiness {
			port, listen := port(t, ownAddress(t))
			return readiness{[]string{"-ready-tcp=:" + port}, listen}
		},
		"a server's answer": func(t *testing.T) readiness {
			var ready atomic.Bool
			port := server(t, func(w http.ResponseWriter, r *http.Request) {
				if !ready.Load() || r.Method != http.MethodGet || r.RequestURI != "/healthz?full=1" || r.Host != "other" || r.Header.Get("X-Probe") != "yes" {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			return readiness{
				[]string{"-ready-http=http://:" + port + "/healthz?full=1", "-ready-http-header=Host: other", "-ready-http-header=x-probe: yes"},
				func() { ready.Store(true) },
			}
		},
		"a redirection": func(t *testing.T) readiness {
			var code atomic.Int32
			code.Store(http.StatusNotFound)
			port := server(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://nowhere.invalid/")
				w.WriteHeader(int(code.Load()))
			})
			return readiness{[]string{"-ready-http=http://127.0.0.1:" + port}, func() { code.Store(http.StatusFound) }}
		},
		"a server that is silent at first": func(t *testing.T) readiness {
			var ready atomic.Bool
			port := server(t, func(_ http.ResponseWriter, r *http.Request) {
				if !ready.Load() {
					<-r.Context().Done()
				}
			})
			return readiness{[]string{"-ready-http=http://:" + port + "/"}, func() { ready.Store(true) }}
		},
		"a server that speaks something else at first": func(t *testing.T) readiness {
			var ready atomic.Bool
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					answer := strings.Repeat("HTTP/", 2000)
					if ready.Load() {
						answer = "HTTP/1.0 204 No Content\r\n\r\n"
					}
					_, _ = c.Write([]byte(answer))
					_ = c.Close()
				}
			}()
			_, number, _ := net.SplitHostPort(listener.Addr().String())
			return readiness{[]string{"-ready-http=http://:" + number + "/"}, func() { ready.Store(true) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := orderDir(t)
			r := probe(t)
			flags := append([]string{"-ready-period=20ms", "-ready-timeout=200ms"}, r.flags...)
			dependency := db(t, dir, append(flags, "--", child, "spin")...)
			p := web(t, dir, "-depends-on=ready")
			isStarted(t, web(t, dir, "-depends-on=started"))
			time.Sleep(300 * time.Millisecond) // several attempts
			waits(t, p)
			r.become()
			isStarted(t, p)
			// The probing has ended, and has left nothing behind.
			supervisor := dependency.Process.Pid
			require.Eventually(t, func() bool { return len(children(supervisor)) == 1 }, deadline, time.Millisecond)
			settle(t, supervisor)
			fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", supervisor))
			require.NoError(t, err)
			for _, fd := range fds {
				target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", supervisor, fd.Name()))
				require.False(t, strings.HasPrefix(target, "socket:"), target)
			}
			dependency.kill(supervisor)
		})
	}
}

// TestAFailingProbeDelaysNothing: neither the command's end, nor its timeout, nor a
// signal.
func TestAFailingProbeDelaysNothing(t *testing.T) {
	t.Parallel()
	for _, probe := range [][]string{
		{"-ready-exec=sleep", "-ready-exec=60"},
		{"-ready-exec=/missing"},
		{"-ready-tcp=:1"},
		{"-ready-file=/missing"},
	} {
		flags := append([]string{"-ready-period=1ms", "-ready-timeout=1m"}, probe...)
		require.Equal(t, 5, db(t, orderDir(t), append(flags, "--", "sh", "-c", "sleep 0.1; exit 5")...).end())
		require.Equal(t, 124, db(t, orderDir(t), append(flags, "-timeout=100ms", "--", "sleep", "60")...).end())
		p := db(t, orderDir(t), append(flags, "--", "sh", "-c", "trap 'exit 7' TERM; echo trapped; while :; do sleep 0.01; done")...)
		p.expect("trapped")
		p.send(15)
		require.Equal(t, 7, p.end())
	}
}

func create(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, nil, 0o600))
}

// port returns a free port of an address, and a server on it. Until the test ends, no
// other process gets this port from the kernel: a socket has it that doesn't listen.
func port(t *testing.T, ip string) (number string, listen func()) {
	t.Helper()
	var family int
	var address unix.Sockaddr
	if ip4 := net.ParseIP(ip).To4(); ip4 != nil {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte(ip4)}
	} else {
		family, address = unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte(net.ParseIP(ip))}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)) // so that the server can have it, too
	require.NoError(t, unix.Bind(fd, address))
	address, err = unix.Getsockname(fd)
	require.NoError(t, err)
	var n int
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		n = a.Port
	case *unix.SockaddrInet6:
		n = a.Port
	}
	return strconv.Itoa(n), func() {
		listener, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(n)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
	}
}

// ownAddress is this machine's address for other machines.
func ownAddress(t *testing.T) string {
	t.Helper()
	c, err := net.Dial("udp", "198.51.100.1:9") // sends nothing
	if err != nil {
		t.Log("this machine has no address of its own")
		return "127.0.0.1"
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP.String()
}

func server(t *testing.T, handle http.HandlerFunc) (port string) {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	return port
}
