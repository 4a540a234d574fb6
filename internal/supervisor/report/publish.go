// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/files"
	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
)

// Options say where to publish the status, beside the memfd.
type Options struct {
	File               string // "" for none
	TerminationMessage string // the file of the kubelet, "" for none
}

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("status-file", "PATH", `Keep the status in this file, as a JSON object.`, cmdline.Path(&o.File))
	f.Add("termination-message", "PATH", `Write the final status to this file, unless the command has written to it.`, cmdline.Path(&o.TerminationMessage))
}

// A Publisher publishes the status in -status-file and in a memfd. "entrypoint status"
// reads the memfd, because a container may have no writable file system. The zero value
// publishes nothing.
type Publisher struct {
	memory     int // descriptor of the memfd, 0 if there is none
	file       string
	complained bool
}

// MemoryName is the memfd's name, with which its link in /proc begins.
const MemoryName = "entrypointer-status"

// OpenPublisher creates a publisher. Without a memfd, which takes start-up time, "entrypoint
// status" derives the status from /proc.
func OpenPublisher(file string, memory bool) Publisher {
	p := Publisher{file: file}
	if memory {
		p.memory, _ = unix.MemfdCreate(MemoryName, unix.MFD_CLOEXEC)
		p.memory = max(p.memory, 0)
	}
	return p
}

// MaxStatus limits a status to the size that Kubernetes allows for a termination
// message.
const MaxStatus = 4096

// Publish publishes a status.
func (p *Publisher) Publish(json []byte) {
	if p.memory > 0 {
		_ = p.remember(json) // on failure, "entrypoint status" shows the status before
	}
	if p.file == "" {
		return
	}
	// A failed write must not affect the command.
	if err := writeFile(p.file, json); err != nil && !p.complained {
		p.complained = true
		console.Say("writing the status to " + strconv.Quote(p.file) + ": " + err.Error() + ": set status-file to a path in a volume that the container's user may write to")
	}
}

// remember replaces the memfd's content atomically, as a rename does in a directory:
// readers see the content before or after, and all of it.
func (p *Publisher) remember(json []byte) error {
	fd, err := unix.MemfdCreate(MemoryName, unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := WriteAll(fd, json); err != nil {
		return err
	}
	return unix.Dup3(fd, p.memory, unix.O_CLOEXEC)
}

// LeaveTerminationMessage writes a text to the file from which the kubelet reads the
// container's termination message, unless the command has written to it.
func LeaveTerminationMessage(path string, text []byte) {
	if path == "" {
		return
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Size > 0 {
		return
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
	if err == nil {
		err = WriteAll(fd, text)
		_ = unix.Close(fd)
	}
	if err != nil {
		console.Say("writing the termination message to " + strconv.Quote(path) + ": " + err.Error())
	}
}

// writeFile replaces the file at path atomically, by a rename. The temporary file has a
// unique name, because containers that share a volume may use the same path.
func writeFile(path string, data []byte) error {
	temporary := path + "." + strconv.FormatInt(time.Now().UnixNano(), 36)
	fd, err := unix.Open(temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	err = WriteAll(fd, data)
	if closed := unix.Close(fd); err == nil {
		err = closed
	}
	if err == nil {
		err = unix.Rename(temporary, path)
	}
	if err != nil {
		_ = unix.Unlink(temporary)
	}
	return err
}

// WriteAll writes all of data, however often a signal interrupts it.
func WriteAll(fd int, data []byte) error { return files.WriteAll(fd, data, signals.Write) }

// Published returns the status that a supervisor has published in its memfd, or
// "" if there is none.
func Published(pid int) string {
	dir := strconv.Itoa(pid) + "/fd"
	for fd := range 64 { // a supervisor opens its memfd first, so its number is low
		name := dir + "/" + strconv.Itoa(fd)
		if !strings.HasPrefix(proc.Link(name, ""), "/memfd:"+MemoryName) {
			continue
		}
		// An empty memfd is about to replace another one.
		if data, _ := proc.ReadFile("/proc/"+name, MaxStatus); len(data) > 0 {
			return string(data)
		}
	}
	return ""
}
