// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Peer is one of two containers that send each other messages, by each transport in
// turn. The asking one says on stdout, as JSON, how many it could send and how long a
// round trip took.
//
//	peer ask|answer DISK MEMORY DURATION
//
// DISK and MEMORY are directories that both see, on an emptyDir of each kind.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// sizes are those of messages, in bytes.
var sizes = []int{64, 4096}

// patience is what the other container may take to start.
const patience = 3 * time.Minute

// What a message's first byte asks for.
const (
	echo  = 'e' // to be sent back
	count = 'c' // to be counted
	total = 't' // for how many were counted, and nothing more
)

// A Result is what test/bench/pipes reads.
type Result struct {
	Transport   string
	Size        int
	PerSecond   float64 // messages that were sent one way
	Median, P99 time.Duration
	Trips       int
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("peer: ")
	if len(os.Args) != 5 {
		log.Fatal("it wants ask or answer, DISK, MEMORY and DURATION")
	}
	lasts, err := time.ParseDuration(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	runtime.LockOSThread()
	var results []Result
	for _, t := range transports {
		for _, size := range sizes {
			dir := filepath.Join(map[bool]string{false: os.Args[2], true: os.Args[3]}[t.memory], t.name+"-"+strconv.Itoa(size))
			if os.Args[1] == "answer" {
				err = answerAt(t, dir, size)
			} else {
				var r Result
				r, err = askAt(t, dir, size, lasts)
				results = append(results, r)
			}
			if err != nil {
				log.Fatalf("%s, %d bytes: %v", t.name, size, err)
			}
		}
	}
	if os.Args[1] == "ask" {
		if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
			log.Fatal(err)
		}
	}
}

// answerAt makes what a transport takes, and answers by it.
func answerAt(t transport, dir string, size int) error {
	unready := dir + ".unready"
	if err := os.MkdirAll(unready, 0o700); err != nil {
		return err
	}
	if err := t.make(unready); err != nil {
		return err
	}
	l, err := t.answer(unready, dir, func() error { return os.Rename(unready, dir) })
	if err != nil {
		return err
	}
	return errors.Join(answer(l, size), l.close())
}

func answer(l link, size int) error {
	message := make([]byte, size)
	for counted := uint64(0); ; {
		if err := l.receive(message); err != nil {
			return err
		}
		switch message[0] {
		case count:
			counted++
		case echo:
			if err := l.send(message); err != nil {
				return err
			}
		case total:
			binary.LittleEndian.PutUint64(message[1:], counted)
			return l.send(message)
		default:
			return fmt.Errorf("receiving: %q begins no message", message[0])
		}
	}
}

// askAt waits until the other one is ready, and measures.
func askAt(t transport, dir string, size int, lasts time.Duration) (r Result, err error) {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err = os.Stat(dir); err == nil {
			break
		}
		if time.Since(begun) > patience {
			return r, err
		}
	}
	l, err := t.ask(dir)
	if err != nil {
		return r, err
	}
	r, err = ask(l, size, lasts, t.most)
	r.Transport = t.name
	return r, errors.Join(err, l.close(), os.RemoveAll(dir))
}

// warmUp are round trips that don't count.
const warmUp = 200

func ask(l link, size int, lasts time.Duration, most int) (r Result, err error) {
	message, back := make([]byte, size), make([]byte, size)
	message[0] = echo
	var trips []time.Duration
	for begun := time.Now(); time.Since(begun) < lasts; {
		at := time.Now()
		if err := errors.Join(l.send(message), l.receive(back)); err != nil {
			return r, err
		}
		trips = append(trips, time.Since(at))
	}
	trips = trips[min(warmUp, len(trips)-1):]
	slices.Sort(trips)
	r.Size, r.Trips, r.Median, r.P99 = size, len(trips), trips[len(trips)/2], trips[len(trips)*99/100]

	message[0] = count
	sent, begun := uint64(0), time.Now()
	for (most == 0 || int(sent)*size < most) && (sent%16 != 0 || time.Since(begun) < lasts) {
		if err := l.send(message); err != nil {
			return r, err
		}
		sent++
	}
	message[0] = total
	if err := errors.Join(l.send(message), l.receive(back)); err != nil {
		return r, err
	}
	if got := binary.LittleEndian.Uint64(back[1:]); got != sent {
		return r, fmt.Errorf("sending %d messages: %d have come", sent, got)
	}
	r.PerSecond = float64(sent) / time.Since(begun).Seconds()
	return r, nil
}
