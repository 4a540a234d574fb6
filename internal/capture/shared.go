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

// shared is what each shipper is given, as the one before it has left it.
type shared struct {
	ring        *ring.Ring
	wake, news  int   // eventfds: by wake, it is woken; by news, it wakes us
	descriptors []int // the shipper's, from 0 on
}

// share makes it.
func share() (s shared, err error) {
	memory, fd, err := ring.Create()
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
		nothing = s.wake // what matters is that it is neither the command's stdin nor its log
	}
	for i := range s.descriptors[:3] {
		s.descriptors[i] = nothing
	}
	former, err := ring.CreateSnapshot()
	if err != nil {
		former = nothing // a shipper then knows only those secrets that it has seen itself
	}
	s.descriptors = append(s.descriptors, former)
	return s, nil
}

// close undoes share.
func (s *shared) close() {
	slices.Sort(s.descriptors) // one may be there several times
	for _, fd := range slices.Compact(s.descriptors) {
		_ = unix.Close(fd)
	}
}
