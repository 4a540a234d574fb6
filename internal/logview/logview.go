// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package logview shows logs in a browser, also of a million lines and of lines of 10 MB.
//
// The server reads a log once, and indexes it: the lines are in a temporary file, of which every
// 256th or so is known in memory. It searches, folds groups of lines, and turns control
// sequences into classes of HTML. The browser asks for some hundred lines at a time, and holds a few
// of such blocks.
//
// To mount it, make one Views for a server, which all pages share:
//
//	views := logview.New(logview.Options{})
//	defer views.Close()
//	mux.Handle("/assets/log/", http.StripPrefix("/assets/log", logview.Assets()))
//
// and for each request about a log, once the caller may read it:
//
//	log := views.Log(key, source)
//	http.StripPrefix("/…/logs", log).ServeHTTP(w, r)
//
// The page has Section("/…/logs/"), and in its head the style sheet and the module of Assets.
package logview

import (
	"context"
	"net/http"
	"os"
	"sync"
	"time"
)

// A Stream is the stdout or the stderr of one start of a container.
type Stream struct {
	// ID is the name of the stream in links, and stays the same.
	ID string
	// Name is stdout or stderr.
	Name, Pod, PodUID, Container, Start string
}

// A Line is a line of a stream, or a piece of one: those of the same line come one after
// another, maybe with lines of other streams between them.
type Line struct {
	Stream Stream
	Text   []byte // without its newline; not kept
	Offset int64  // of the first byte in the stream
	Time   int64  // Unix milliseconds
	// Ended says that the text is the end of a line.
	Ended bool
	// Gap says that the text stands for bytes that were dropped or deleted, or are missing.
	Gap bool
}

// A Source reads a log, and returns at its end or with ctx. It is called once for an index.
type Source func(ctx context.Context, to *Recorder) error

// Options bound what is kept of logs. A value of 0 stands for the default.
type Options struct {
	// Dir is where temporary files are, os.TempDir by default.
	Dir string
	// MaxLog bounds the disk space of one log, 2 GiB by default, and MaxTotal that of all, 8 GiB,
	// in bytes.
	MaxLog, MaxTotal int64
	// MaxLogs bounds the logs that are open, 32 by default.
	MaxLogs int
	// MaxLogsOfOwner bounds the open logs of one owner, and MaxOfOwner their disk space, in bytes.
	// By default there are no such bounds.
	MaxLogsOfOwner int
	MaxOfOwner     int64
	// Idle is after how long a log that nobody reads is closed, 5 minutes by default.
	Idle time.Duration
}

// failedIdle is after how long a log is read again that couldn't be read.
const failedIdle = 5 * time.Second

// Views has the logs that are open.
type Views struct {
	options Options
	room    room

	mu      sync.Mutex
	logs    map[name]*openLog
	shares  map[string]*share // by owner
	stop    chan struct{}
	closing sync.WaitGroup
}

// A name is that of a log. Owners have logs of their own, whatever their keys.
type name struct{ owner, key string }

// An openLog is a log that is indexed.
type openLog struct {
	*index

	cancel   context.CancelFunc
	filled   chan struct{} // closed when fill has returned
	readers  int
	lastUsed time.Time
}

// New returns views without logs.
func New(o Options) *Views {
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	if o.MaxLog == 0 {
		o.MaxLog = 2 << 30
	}
	if o.MaxTotal == 0 {
		o.MaxTotal = 8 << 30
	}
	if o.MaxLogs == 0 {
		o.MaxLogs = 32
	}
	if o.Idle == 0 {
		o.Idle = 5 * time.Minute
	}
	v := &Views{options: o, room: room{perLog: o.MaxLog, perOwner: o.MaxOfOwner, total: o.MaxTotal}, logs: map[name]*openLog{}, shares: map[string]*share{}, stop: make(chan struct{})}
	go v.closeIdle()
	return v
}

// Log returns the handler of a log: of /info, /rows, /search, /find and /text. The key
// says whose log it is, and the source is called if the log isn't open. The caller has made sure
// that the log may be read.
func (v *Views) Log(key string, source Source) http.Handler { return v.LogOf("", key, source) }

// LogOf is Log for one of several owners. What one of them has had indexed is never that of
// another one, and an owner that opens too many logs has its own ones closed for them.
func (v *Views) LogOf(owner, key string, source Source) http.Handler {
	return &handler{v, name{owner, key}, source}
}

// Close closes all logs, and waits until their sources have returned. No handler may be running or
// be called later.
func (v *Views) Close() {
	close(v.stop)
	v.mu.Lock()
	for key, log := range v.logs {
		v.drop(key, log)
	}
	v.mu.Unlock()
	v.closing.Wait()
}

// acquire returns the index of a log, and opens it if necessary. Release it.
func (v *Views) acquire(key name, source Source) (*openLog, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	log := v.find(key)
	if log == nil {
		of := v.shares[key.owner]
		if of == nil {
			of = &share{}
		}
		switch {
		case v.isFull(key.owner), v.room.isLess(of):
			v.dropOldest(func(n name) bool { return n.owner == key.owner })
		case len(v.logs) >= v.options.MaxLogs || v.room.taken.Load() >= v.room.total/2:
			v.dropOldest(func(name) bool { return true })
		}
		if len(v.logs) >= v.options.MaxLogs || v.isFull(key.owner) {
			return nil, errBusy
		}
		x, err := newIndex(v.options.Dir, &v.room, of)
		if err != nil {
			return nil, err
		}
		of.logs++
		v.shares[key.owner] = of
		ctx, cancel := context.WithCancel(context.Background())
		log = &openLog{index: x, cancel: cancel, filled: make(chan struct{})}
		v.logs[key] = log
		go func() {
			defer close(log.filled)
			log.fill(ctx, source)
		}()
	}
	log.readers++
	return log, nil
}

// acquireOpen returns the index of a log that is open, or nil. Release it.
func (v *Views) acquireOpen(key name) *openLog {
	v.mu.Lock()
	defer v.mu.Unlock()
	log := v.find(key)
	if log != nil {
		log.readers++
	}
	return log
}

// find returns a log that is open, or nil. It closes one that has been left alone for too long.
func (v *Views) find(key name) *openLog {
	log := v.logs[key]
	if log != nil && log.expired(time.Now(), v.options.Idle) {
		v.drop(key, log)
		return nil
	}
	return log
}

func (v *Views) release(log *openLog) {
	v.mu.Lock()
	defer v.mu.Unlock()
	log.readers--
	log.lastUsed = time.Now()
}

// expired reports whether a log can be closed.
func (l *openLog) expired(now time.Time, idle time.Duration) bool {
	if l.failed.Load() {
		idle = min(idle, failedIdle)
	}
	return l.readers == 0 && now.Sub(l.lastUsed) > idle
}

// drop closes a log that nobody reads.
func (v *Views) drop(key name, log *openLog) {
	delete(v.logs, key)
	log.cancel()
	v.closing.Go(func() {
		<-log.filled
		_ = log.close() // nothing is lost
		v.mu.Lock()
		defer v.mu.Unlock()
		if log.share.logs--; log.share.logs == 0 {
			delete(v.shares, key.owner)
		}
	})
}

// isFull reports whether an owner has as many open logs as it may have.
func (v *Views) isFull(owner string) bool {
	if v.options.MaxLogsOfOwner == 0 {
		return false
	}
	open := 0
	for key := range v.logs {
		if key.owner == owner {
			open++
		}
	}
	return open >= v.options.MaxLogsOfOwner
}

// dropOldest closes the log, among some, that wasn't read for longest, if nobody reads it now.
func (v *Views) dropOldest(among func(name) bool) {
	var oldest name
	var found *openLog
	for key, log := range v.logs {
		if among(key) && log.readers == 0 && (found == nil || log.lastUsed.Before(found.lastUsed)) {
			oldest, found = key, log
		}
	}
	if found != nil {
		v.drop(oldest, found)
	}
}

// closeIdle closes the logs that nobody has read for long.
func (v *Views) closeIdle() {
	every := time.NewTicker(v.options.Idle / 5)
	defer every.Stop()
	for {
		select {
		case <-v.stop:
			return
		case now := <-every.C:
			v.mu.Lock()
			for key, log := range v.logs {
				if log.expired(now, v.options.Idle) {
					v.drop(key, log)
				}
			}
			v.mu.Unlock()
		}
	}
}
