// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// A stream is sent by one replica at a time, which says so in the bucket, by objects of
//
//	exports/<namespace>/<pod>/<id>-<n>       claim n of the stream, with the offset up to which it was sent
//	exports/<namespace>/<pod>/<id>-<n>-rest  the holder of claim n has given it up, at another offset
//	exports/<namespace>/<pod>/<id>-<n>-done  all of the stream was sent
//
// and, for the spans that are made of a stream of events, traces/ instead of exports/.
// Only one replica can create claim n+1. A holder makes its next claim every few minutes, so
// that others see it alive; whoever sees the same claim for claimTime takes it over. This
// needs no common clock. After a crash, what was sent since the last claim is sent again.
const ofLines, ofSpans = "exports/", "traces/"

const (
	// claimTime is how long a claim is good for, by the clock of the holder, and how long others
	// have to see it unchanged.
	claimTime = 10 * time.Minute
	// renewTime is how much earlier a holder makes its next claim.
	renewTime = claimTime / 2
	// takeTime bounds the time between looking at the claims and making one, so that a claim
	// isn't made long after others have come and gone.
	takeTime = 30 * time.Second
)

// The endings of the names of claims.
const (
	atRest = "-rest"
	isDone = "-done"
)

// The reasons not to send a stream.
var (
	errHeld = errors.New("another replica sends the stream")
	errDone = errors.New("all of the stream was sent")
)

// A claim is what a replica holds of a stream, or knows of another's claim.
type claim struct {
	number int64     // of the last claim that was seen
	seen   time.Time // when it was seen first
	until  time.Time // how long this replica holds it, or has held it; zero for another's
}

// A claimed is a claim in a listing.
type claimed struct {
	number int64
	ending string // "", atRest or isDone
}

// parseClaim parses what follows the ID in a claim's name.
func parseClaim(name string) (c claimed, ok bool) {
	for _, ending := range []string{atRest, isDone} {
		if before, is := strings.CutSuffix(name, ending); is {
			name, c.ending = before, ending
			break
		}
	}
	number, err := strconv.ParseInt(name, 16, 64)
	c.number = number
	return c, err == nil && number > 0 && c.name() == name+c.ending
}

func (c claimed) name() string { return fmt.Sprintf("%08x%s", c.number, c.ending) }

// later reports whether c says more recent things than d.
func (c claimed) later(d claimed) bool {
	return c.number > d.number || c.number == d.number && c.ending > d.ending
}

// claims are the claims of all streams.
type claims struct {
	bucket    storage.Bucket
	directory string // ofLines or ofSpans
	now       func() time.Time
}

func (c claims) key(j *job, of claimed) string {
	return c.directory + j.namespace + "/" + j.pod + "/" + j.id + "-" + of.name()
}

// list returns all claims of a stream, and the last one.
func (c claims) list(ctx context.Context, j *job) (all []claimed, last claimed, err error) {
	err = c.bucket.Walk(ctx, c.directory+j.namespace+"/"+j.pod, j.id, func(o storage.Object) bool {
		rest, is := strings.CutPrefix(o.Name, j.id+"-")
		if one, ok := parseClaim(rest); is && ok {
			all = append(all, one)
			if one.later(last) {
				last = one
			}
		}
		return is
	})
	return all, last, err
}

// take makes the next claim of a stream, and returns the offset up to which it was sent. The
// error is errHeld if another replica holds it, and errDone if all of it was sent, as far as
// the offset up to which bytes are known to be stored.
func (c claims) take(ctx context.Context, j *job, written int64) (offset int64, err error) {
	began := c.now()
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	all, last, err := c.list(ctx, j)
	if err != nil {
		return 0, fmt.Errorf("looking whether stream %q is sent: %w", j.id, err)
	}
	if last.number > 0 {
		if j.claim.number != last.number {
			j.claim = claim{number: last.number, seen: began}
		}
		if isOthers := j.claim.until.IsZero(); isOthers && last.ending == "" && began.Sub(j.claim.seen) < claimTime {
			return 0, errHeld
		}
		if offset, err = c.read(ctx, j, last); err != nil {
			return 0, err
		}
		if last.ending == isDone && offset >= written {
			return 0, errDone
		}
	}
	if err := c.make(ctx, j, last.number+1, offset, began); err != nil {
		return 0, err
	}
	c.forget(ctx, j, slices.DeleteFunc(all, func(one claimed) bool { return one.number == last.number }))
	return offset, nil
}

func (c claims) read(ctx context.Context, j *job, of claimed) (offset int64, err error) {
	content, err := c.bucket.Read(ctx, c.key(j, of))
	if errors.Is(err, storage.ErrNotFound) {
		return 0, errHeld // another replica has made the next one
	}
	if err == nil {
		offset, err = strconv.ParseInt(string(content), 10, 64)
	}
	if err == nil && (offset < 0 || offset > streams.MaxOffset) {
		err = fmt.Errorf("it is %d", offset)
	}
	if err != nil {
		return 0, fmt.Errorf("reading up to where stream %q was sent, in %s: %w", j.id, c.key(j, of), err)
	}
	return offset, nil
}

// make makes a claim. It is good from the moment before.
func (c claims) make(ctx context.Context, j *job, number, offset int64, began time.Time) error {
	err := c.bucket.Create(ctx, c.key(j, claimed{number: number}), []byte(strconv.FormatInt(offset, 10)))
	if errors.Is(err, storage.ErrExists) {
		j.claim = claim{}
		return errHeld
	}
	if err != nil {
		return fmt.Errorf("claiming stream %q: %w", j.id, err)
	}
	j.claim = claim{number: number, seen: began, until: began.Add(claimTime)}
	return nil
}

// isHeld reports whether this replica may send for the longest time that a turn takes.
func (c claims) isHeld(j *job) bool { return j.claim.until.Sub(c.now()) > maxTurn }

// renew makes the next claim of a stream, if this replica holds it and it is time to.
func (c claims) renew(ctx context.Context, j *job) error {
	began := c.now()
	if j.claim.until.IsZero() || j.claim.until.Sub(began) > renewTime {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	before := j.claim.number
	if err := c.make(ctx, j, before+1, j.offset, began); err != nil {
		return err
	}
	c.forget(ctx, j, []claimed{{number: before - 1}})
	return nil
}

// end gives a claim up, unless it is over already.
func (c claims) end(ctx context.Context, j *job, ending string) error {
	if j.claim.until.Before(c.now().Add(takeTime)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	err := c.bucket.Create(ctx, c.key(j, claimed{j.claim.number, ending}), []byte(strconv.FormatInt(j.offset, 10)))
	if err != nil && !errors.Is(err, storage.ErrExists) {
		return fmt.Errorf("noting that stream %q was sent up to byte %d: %w", j.id, j.offset, err)
	}
	c.forget(ctx, j, []claimed{{number: j.claim.number}, {number: j.claim.number - 1}})
	j.claim = claim{}
	return nil
}

// forget deletes former claims. What stays after a failure does no harm.
func (c claims) forget(ctx context.Context, j *job, former []claimed) {
	for _, one := range former {
		if one.number > 0 {
			_ = c.bucket.Delete(ctx, c.key(j, one))
		}
	}
}
