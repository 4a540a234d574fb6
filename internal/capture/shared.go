// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// shared has what all shippers of a container inherit in turn.
type shared struct {
	ring        *ring.Ring
	wake, news  int   // eventfds: wake is for the shipper, news for the supervisor
	nothing     int   // /dev/null
	snapshot    int   // what masked files have contained, nothing if it couldn't be created
	descriptors []int // the descriptors of a shipper, from 0 on
}

// newShared creates the ring, the eventfds and the snapshot.
func newShared(capacity int64) (s shared, err error) {
	memory, fd, err := ring.Create(capacity)
	if err != nil {
		return s, err
	}
	s.ring = memory
	s.descriptors = []int{-1, -1, -1, fd}
	for _, event := range []*int{&s.wake, &s.news} {
		if *event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			s.close()
			return s, errors.New("eventfd: " + err.Error())
		}
		s.descriptors = append(s.descriptors, *event)
	}
	nothing, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		nothing = s.wake // any file will do but the command's stdin and output
	}
	s.nothing = nothing
	for i := range s.descriptors[:3] {
		s.descriptors[i] = nothing
	}
	snapshot, err := ring.CreateSnapshot()
	if err != nil {
		snapshot = nothing // each shipper then knows only the secrets that it has read itself
	}
	s.snapshot = snapshot
	s.descriptors = append(s.descriptors, snapshot)
	return s, nil
}

// close undoes newShared.
func (s *shared) close() {
	slices.Sort(s.descriptors) // some are there several times
	for _, fd := range slices.Compact(s.descriptors) {
		_ = unix.Close(fd)
	}
}
