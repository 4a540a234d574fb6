// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// pipes connect the stdout of containers with the stdin of other containers.
type pipes struct {
	writers map[string]string   // by the container that reads
	readers map[string]string   // by the container that writes
	flags   map[string][]string // of both
}

func (p *pipes) has(name string) bool { return p.writers[name] != "" || p.readers[name] != "" }

// pipeSuffix makes the name of a pipe's directory from the reader's name, which has no
// dot. The directory is separate from the reader's directory of the order: containers
// that read a container's state may not write to its stdin.
const pipeSuffix = ".stdin"

// directories returns the directories of a container: its own, "" if it doesn't read, and
// the directory of the container that reads its output.
func (p *pipes) directories(name string) (own, reader string) {
	if p.writers[name] != "" {
		own = name + pipeSuffix
	}
	if p.readers[name] != "" {
		reader = p.readers[name] + pipeSuffix
	}
	return own, reader
}

// parseStdin checks a value of the option stdin.
func parseStdin(value string) error {
	if !isContainerName(value) {
		return text.CanBe("the name of another container of the pod")
	}
	return nil
}

// stdinKey returns the annotation of a container that reads.
func stdinKey(reader string) string { return annotation.For(Stdin, reader) }

// compilePipes determines which containers read the output of others.
func (b *builder) compilePipes(o *ordering, among containers) error {
	for at := range b.Object.Spec.Containers {
		reader := b.Object.Spec.Containers[at].Name
		writer, set := b.Object.Annotations[stdinKey(reader)]
		if !set {
			continue
		}
		if err := parseStdin(writer); err != nil {
			return text.Errorf("reading annotation %s: %q is wrong; %w", stdinKey(reader), writer, err)
		}
		if err := o.pipes.admit(among, reader, writer); err != nil {
			return err
		}
		if why := b.preventsPipe(o, among, reader, writer); why != nil {
			return text.Errorf("reading annotation %s: container %q can't read the output of %q: %w", stdinKey(reader), reader, writer, why)
		}
		o.pipes.writers[reader], o.pipes.readers[writer] = writer, reader
		o.see(reader, writer)
		o.see(writer, reader)
	}
	return nil
}

// admit refuses containers that don't exist, or can't be connected.
func (*pipes) admit(among containers, reader, writer string) error {
	key := stdinKey(reader)
	if !among.wrapped[reader] {
		return text.Errorf("reading annotation %s: container %q can't be given an input, because %w", key, reader, among.whyUnwrapped(reader))
	}
	_, present := among.byName[writer]
	switch {
	case among.wrapped[writer]:
		return nil
	case present:
		return text.Errorf("reading annotation %s: the output of container %q can't be connected, because %w", key, writer, among.whyUnwrapped(writer))
	case among.sidecars[writer]:
		return text.Errorf("reading annotation %s: %q is a native sidecar, which has no supervisor; make it a container, or write its output to a volume", key, writer)
	case among.before[writer]:
		return text.Errorf("reading annotation %s: %q is an init container, which has ended before another one starts; write its output to a volume, or make it a container", key, writer)
	}
	return annotation.Absent(among.pod, key, writer)
}

// preventsPipe returns why there can be no pipe between two containers, nil if there can.
func (b *builder) preventsPipe(o *ordering, among containers, reader, writer string) error {
	from, to := among.byName[writer], among.byName[reader]
	other := o.pipes.readers[writer]
	switch {
	case reader == writer:
		return errors.New("a container can't read its own output; name another container")
	case o.doubtful:
		return errors.New("in a pod with a runtimeClassName, containers may not share a kernel, and no pipe leads from one kernel to another; remove stdin or the runtimeClassName, use a volume, or have the operator add the class to shared-kernel-classes")
	case other != "":
		return fmt.Errorf("%q reads that output already, and a pipe has one reader; remove one of the annotations, or copy the output in a container between them (tee)", other)
	case to.Stdin || to.TTY:
		return fmt.Errorf("stdin or tty is true in %q, which would have two inputs; remove stdin and tty", reader)
	case from.TTY:
		return fmt.Errorf("tty is true in %q, whose output would go to a terminal; remove tty", writer)
	}
	for _, partner := range []struct{ name, is, flag string }{{writer, reader, stdinFromFlag}, {reader, writer, stdoutToFlag}} {
		l, err := b.restartPolicyOf(among.byName[partner.name])
		if err != nil {
			return err
		}
		if l.mode != "" {
			return fmt.Errorf("by %s: exec, the container has no supervisor that connects the pipe and reports the end; remove one of them", l.mode)
		}
		o.pipes.flags[partner.is] = append(o.pipes.flags[partner.is], partner.flag+orderDirectory(partner.name))
	}
	return nil
}

// needs returns the containers for which a container waits.
func (o *ordering) needs(name string) (others []string) {
	for _, d := range o.waits[name] {
		others = append(others, d.on)
	}
	if writer := o.pipes.writers[name]; writer != "" {
		others = append(others, writer)
	}
	return others
}

// keyOf returns the annotation by which a container waits.
func (o *ordering) keyOf(name string) string {
	switch {
	case len(o.waits[name]) > 0:
		return annotation.For(DependsOn, name)
	case o.pipes.writers[name] != "":
		return stdinKey(name)
	}
	return stdinKey(o.pipes.readers[name])
}

// checkPipes refuses a reader that waits for its writer to end or to be ready: as soon as
// the pipe is full, the writer waits for the reader.
func (o *ordering) checkPipes() error {
	held := map[string]map[string]bool{}
	for _, waiter := range o.names {
		for _, d := range o.waits[waiter] {
			reader := o.pipes.readers[d.on]
			if reader == "" || d.condition == conditions.Started || !o.heldUpBy(reader, held)[waiter] {
				continue
			}
			why, advice := fmt.Sprintf("can't be %s before its output is read", string(d.condition)), fmt.Sprintf("remove %q from", d.on)
			if d.condition == conditions.Ready {
				why, advice = "may print more than a pipe holds before it is ready", "wait for it to be started, in"
			}
			return text.Errorf("reading annotation %s: container %q reads the output of %q, which %s, and %q waits for that; %s annotation %s.%s/%s",
				stdinKey(reader), reader, d.on, why, waiter, advice, DependsOn, annotation.Domain, waiter)
		}
	}
	return nil
}

// heldUpBy returns the containers that have to make progress before a reader does: the
// reader, the containers for which it waits, and the same of the container that reads its
// output. known caches the results.
func (o *ordering) heldUpBy(reader string, known map[string]map[string]bool) map[string]bool {
	if all, is := known[reader]; is {
		return all
	}
	all := map[string]bool{reader: true}
	known[reader] = all
	o.reaches(reader, func(name string) bool { all[name] = true; return false })
	if next := o.pipes.readers[reader]; next != "" {
		maps.Copy(all, o.heldUpBy(next, known))
	}
	return all
}

// rows returns the pipes in the short form, "a | b | c", of the first text.MaxListed
// containers.
func (p *pipes) rows(names []string) (rows []string) {
	count, left := 0, 0
	for _, name := range names {
		if p.readers[name] == "" || p.writers[name] != "" {
			continue
		}
		var row []string
		for ; name != ""; name = p.readers[name] {
			if count == text.MaxListed {
				left++
				continue
			}
			count++
			row = append(row, name)
		}
		if len(row) > 0 {
			rows = append(rows, strings.Join(row, " | "))
		}
	}
	if left > 0 {
		rows[len(rows)-1] += fmt.Sprintf(", and %d more", left)
	}
	return rows
}

// mounts returns the mounts of a container for its pipes.
func (p *pipes) mounts(name string) (mounts []corev1.VolumeMount) {
	own, reader := p.directories(name)
	if own != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: orderVolumeName(own), MountPath: orderDirectory(own)})
	}
	if reader != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: orderVolumeName(reader), MountPath: orderDirectory(reader), ReadOnly: true})
	}
	return mounts
}
