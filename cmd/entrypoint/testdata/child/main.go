// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Child is the container's command in tests where a shell can't be.
//
//	child echo word   prints the word for each real-time signal that arrives
//	child orphans n   leaves n orphans, prints "made", and sleeps
//	child read        prints the number of bytes on stdin
//	child deathsig    prints its parent-death signal
//	child spin        prints "ready", and sleeps
//	child turn a b c  takes the turn b after a; see turn
//	child poll d f    prints that it has started, and polls for the file f at the interval d
//	child await d f   polls without that output, and then prints its process ID, too
//	child raise       becomes root by its file's mode, and sleeps
//	child trace       stops its parent by ptrace(2), and ends
//	child refuse a,b c...  executes c with these system calls refused
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	switch os.Args[1] {
	case "echo":
		fd := realTimeSignals()
		for {
			for range count(fd) {
				fmt.Println(os.Args[2])
			}
		}
	case "orphans":
		orphans(number(2))
		fmt.Println("made")
		time.Sleep(time.Hour)
	case "parent":
		forkAndForget(number(2))
	case "read":
		fmt.Println(size(os.Stdin))
	case "deathsig":
		var sig int32
		check(unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0))
		fmt.Println(sig)
	case "subreaper":
		var is int32
		check(unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0))
		fmt.Println(is)
	case "spin":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "turn":
		turn(os.Args[2], os.Args[3], os.Args[4] == "content", os.Args[5:]...)
	case "poll":
		fmt.Println("begun")
		poll(os.Args[3], false, os.Args[2])
		fmt.Println("its turn")
	case "await":
		poll(os.Args[3], false, os.Args[2])
		fmt.Println("its turn", os.Getpid())
	case "awaitcontent":
		poll(os.Args[3], true, os.Args[2])
		fmt.Println("its turn", os.Getpid())
	case "raise":
		check(syscall.Setuid(0))
		fmt.Println("raised")
		time.Sleep(time.Hour)
	case "trace":
		runtime.LockOSThread()
		check(syscall.PtraceAttach(os.Getppid()))
		fmt.Println("traced")
	case "refuse":
		refuse(strings.Split(os.Args[2], ","))
		path, err := exec.LookPath(os.Args[3])
		check(err)
		check(syscall.Exec(path, os.Args[3:], os.Environ()))
	}
}

// refuse makes these system calls fail with EPERM, for this thread and all programs
// that it executes (seccomp(2)).
func refuse(names []string) {
	runtime.LockOSThread()
	numbers := map[string]uint32{"memfd_create": unix.SYS_MEMFD_CREATE, "eventfd2": unix.SYS_EVENTFD2}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number
	for _, name := range names {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: numbers[name]},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	check(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	check(unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0))
}

func number(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	check(err)
	return n
}

// realTimeSignals returns a descriptor from which to read all real-time signals that
// the Go runtime doesn't use, as many times as they arrive, and prints that it is
// ready. Each thread must block these signals, which takes another exec.
func realTimeSignals() (fd int) {
	set := unix.Sigset_t{Val: [16]uint64{^uint64(1<<34 - 1)}}
	if _, ok := os.LookupEnv("CHILD_BLOCKED"); !ok {
		runtime.LockOSThread()
		check(unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil))
		check(syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), "CHILD_BLOCKED=1")))
	}
	fd, err := unix.Signalfd(-1, &set, unix.SFD_CLOEXEC)
	check(err)
	fmt.Println("ready")
	return fd
}

// count waits for signals and returns their number.
func count(fd int) int {
	buf := make([]byte, 64*unsafe.Sizeof(unix.SignalfdSiginfo{}))
	n, err := unix.Read(fd, buf)
	if errors.Is(err, unix.EINTR) {
		return 0
	}
	check(err)
	return n / int(unsafe.Sizeof(unix.SignalfdSiginfo{}))
}

// orphans starts processes that end before they wait for their children. It waits for
// these processes only.
func orphans(n int) {
	const parents = 2 // no more, so that other tests get CPU time, too
	var list []int
	for range parents {
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"child", "parent", strconv.Itoa(n / parents)},
			&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
		check(err)
		list = append(list, pid)
	}
	for _, pid := range list {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, 0, nil)
		check(err)
		if status != 0 {
			os.Exit(99)
		}
	}
}

// forkAndForget creates n children that end at once. A Go program can't do more after a
// plain fork.
func forkAndForget(n int) {
	for range n {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			check(errno)
		}
		if pid == 0 {
			for {
				_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
	}
}

// turn creates own.begun, works for a moment, and creates own.done. Then it creates
// own.out, for which other processes wait; if they wait for content, own.out exists
// from the beginning and is empty. turn fails if before.done doesn't exist, unless
// before is none, or if own.begun exists already. With an interval, it waits for its
// turn itself.
func turn(before, own string, content bool, interval ...string) {
	if before != "none" {
		if len(interval) > 0 {
			poll(before+".out", content, interval[0])
		}
		_, err := os.Stat(before + ".done")
		check(err)
	}
	begun, err := os.OpenFile(own+".begun", os.O_CREATE|os.O_EXCL, 0o600)
	check(err)
	check(begun.Close())
	if content {
		create(own+".out", "")
	}
	time.Sleep(time.Millisecond)
	create(own+".done", "")
	create(own+".out", "over to you\n")
}

// poll polls for a file, which may need content, as Tekton's entrypoint does.
func poll(path string, content bool, interval string) {
	every, err := time.ParseDuration(interval)
	check(err)
	for ; ; time.Sleep(every) {
		if info, err := os.Stat(path); err == nil && (!content || info.Size() > 0) {
			return
		}
	}
}

func create(path, content string) {
	check(os.WriteFile(path, []byte(content), 0o600))
}

func size(r io.Reader) (n int) {
	buf := make([]byte, 1<<20)
	for {
		m, err := r.Read(buf)
		n += m
		if errors.Is(err, io.EOF) {
			return n
		}
		check(err)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(99)
	}
}
