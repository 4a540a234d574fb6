// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// insideVariable is the environment variable by which the process in the namespaces knows
// that it is there, and which directory it has.
const insideVariable = "ENTRYPOINTER_SCALE_INSIDE"

// address is the only address besides 127.0.0.1. API servers and lookups don't connect to
// loopback addresses, so the loopback interface has a private one as well.
const address = "10.251.0.1"

// endLimit is the time in which the inner process ends by itself after a signal.
const endLimit = 30 * time.Second

// isolated runs this program again, in namespaces of its own.
func isolated(ctx context.Context, directory string) error {
	if os.Geteuid() != 0 {
		return errors.New("making namespaces for the run: this needs root; run it as root")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	inner := exec.CommandContext(ctx, self, os.Args[1:]...)
	inner.Env = append(os.Environ(), insideVariable+"="+directory)
	inner.Stdout, inner.Stderr = os.Stdout, os.Stderr
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL, // it is the first process of its namespace, whose others end with it
	}
	inner.Cancel = func() error { return inner.Process.Signal(syscall.SIGTERM) }
	inner.WaitDelay = endLimit
	if err := inner.Run(); err != nil {
		return fmt.Errorf("running in namespaces of its own: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// enter prepares the namespaces that this process is the first of.
func enter() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("entering namespaces: this process has id %d, and %s is for the first process of a namespace; unset it", os.Getpid(), insideVariable)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts in this namespace: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return upLoopback()
}

// upLoopback turns the loopback interface on, and gives it the address.
func upLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("preparing loopback: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("turning loopback on: %w", err)
	}
	alias, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := alias.SetInet4Addr(net.ParseIP(address).To4()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, alias); err != nil {
		return fmt.Errorf("giving loopback the address %s: %w", address, err)
	}
	return nil
}
