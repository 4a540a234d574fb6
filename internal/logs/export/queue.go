// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// maxJobs bounds the streams that a replica knows to have something to send, of some 500
// bytes each. A scan finds the others later.
const maxJobs = 50_000

// maxShare is the part of the jobs that a namespace can have: a fourth.
const maxShare = 4

// maxGoingOn bounds the jobs of a namespace that have sent all of their stream, and wait for what
// it is about, which may take days. A scan finds the others later.
const maxGoingOn = 1000

// A job is a stream that has something to send, or may have. Its worker alone uses what isn't
// guarded.
type job struct {
	id, namespace, pod string

	claim    claim
	others   int64 // the claim of another replica that was seen last, 0 for none
	offset   int64 // up to where the stream was sent
	heldAt   int64 // the offset of a line whose end is waited for
	heldFrom time.Time
	refuses  bool      // whether the destination takes nothing of it, not even a record of a gap
	idle     time.Time // since when nothing has come behind idleAt
	idleAt   int64

	// For the records, while a turn lasts:
	name     string
	resource *resourcepb.Resource
	trace    traceContext
	restarts int
	counted  bool // whether restarts is known
	isYoung  bool // whether the stream was created after Options.Since

	// For spans:
	ended *ended // of a start whose spans were sent

	// Guarded by the queue:
	state   jobState
	due     time.Time
	goesOn  bool      // whether it counts as one that waits for what its stream is about
	patient bool      // whether new bytes don't make it due earlier
	looked  time.Time // when the last turn began
	at      int       // the index in the heap while it waits
	written int64     // the offset up to which bytes are known to be stored
	sent    int64     // offset, as of the last turn
	since   time.Time // when the first byte was stored that isn't sent, zero without
}

type jobState int

const (
	isWaiting jobState = iota // until it is due
	isReady
	isRunning
)

// A queue has the jobs. Namespaces take turns, and no namespace has more than its share of
// the workers, so one with endless output delays the others by a turn.
type queue struct {
	now    func() time.Time
	most   int // jobs
	share  int // workers of a namespace
	going  int // jobs of a namespace that go on after their stream
	change chan struct{}

	mu      sync.Mutex
	jobs    map[string]*job
	waiting jobHeap
	ready   map[string][]*job // by namespace
	turns   []string          // the namespaces with ready jobs; the first one is next
	running map[string]int    // by namespace
	count   map[string]int    // of jobs, by namespace
	goOn    map[string]int    // of jobs that go on after their stream, by namespace
}

func newQueue(now func() time.Time) *queue {
	return &queue{
		now: now, most: maxJobs, share: max(1, workers/2), going: maxGoingOn, change: make(chan struct{}, 1),
		jobs: map[string]*job{}, ready: map[string][]*job{}, running: map[string]int{}, count: map[string]int{}, goOn: map[string]int{},
	}
}

// wake has a worker look at the queue.
func (q *queue) wake() {
	select {
	case q.change <- struct{}{}:
	default:
	}
}

// offer adds a stream that may have something to send. It reports whether there was room.
func (q *queue) offer(id, namespace, pod string, due time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobOf(id, namespace, pod, due) != nil
}

func (q *queue) jobOf(id, namespace, pod string, due time.Time) *job {
	j := q.jobs[id]
	if j == nil && len(q.jobs) < q.most && q.count[namespace] < q.most/maxShare {
		q.count[namespace]++
		j = &job{id: id, namespace: namespace, pod: pod, due: due}
		q.jobs[id] = j
		heap.Push(&q.waiting, j)
		q.wake()
	}
	return j
}

// wrote notes that bytes up to an offset were stored. At most soon after, or at once if there
// are many, a worker looks at the stream.
func (q *queue) wrote(id, namespace, pod string, to int64, pause time.Duration) bool {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobOf(id, namespace, pod, now.Add(soon))
	if j == nil {
		return false
	}
	j.written = max(j.written, to)
	if j.since.IsZero() && j.written > j.sent {
		j.since = now
	}
	due := latest(now.Add(soon), j.looked.Add(pause))
	if j.written-j.sent >= maxBatch {
		due = now
	}
	if j.state == isWaiting && !j.patient && due.Before(j.due) {
		j.due = due
		heap.Fix(&q.waiting, j.at)
		q.wake()
	}
	return true
}

// next returns the next job that is due, and waits for one. The error is the context's.
func (q *queue) next(ctx context.Context) (*job, error) {
	for {
		j, in := q.tryNext()
		if j != nil {
			return j, nil
		}
		timer := time.NewTimer(in)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-q.change:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// tryNext returns the next job that is due, or in how much time one may be.
func (q *queue) tryNext() (j *job, in time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for len(q.waiting) > 0 && !q.waiting[0].due.After(now) {
		q.enqueue(heap.Pop(&q.waiting).(*job))
	}
	for i, namespace := range q.turns {
		if q.running[namespace] >= q.share {
			continue
		}
		j = q.ready[namespace][0]
		q.turns = slices.Delete(q.turns, i, i+1)
		if q.ready[namespace] = q.ready[namespace][1:]; len(q.ready[namespace]) > 0 {
			q.turns = append(q.turns, namespace)
		} else {
			delete(q.ready, namespace)
		}
		j.state, j.looked = isRunning, now
		q.running[namespace]++
		if len(q.turns) > 0 {
			q.wake() // another worker may have something to do as well
		}
		return j, 0
	}
	in = time.Minute
	if len(q.waiting) > 0 {
		in = min(in, q.waiting[0].due.Sub(now))
	}
	return nil, in
}

func (q *queue) enqueue(j *job) {
	j.state = isReady
	if len(q.ready[j.namespace]) == 0 {
		q.turns = append(q.turns, j.namespace)
	}
	q.ready[j.namespace] = append(q.ready[j.namespace], j)
}

// again ends a job's turn, and has it run again. New bytes make it due earlier, unless it is
// patient.
func (q *queue) again(j *job, due time.Time, patient bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settle(j)
	j.state, j.due, j.patient = isWaiting, due, patient
	heap.Push(&q.waiting, j)
	q.wake()
}

// mayGoOn reports whether there is room for a job that waits for what its stream is about.
func (q *queue) mayGoOn(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !j.goesOn && q.goOn[j.namespace] < q.going {
		j.goesOn = true
		q.goOn[j.namespace]++
	}
	return j.goesOn
}

// done ends a job, unless bytes were stored since its turn began; then it reports false, and
// the job still runs.
func (q *queue) done(j *job, isOver bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !isOver && j.written > j.offset {
		return false
	}
	q.settle(j)
	delete(q.jobs, j.id)
	if j.goesOn {
		if q.goOn[j.namespace]--; q.goOn[j.namespace] == 0 {
			delete(q.goOn, j.namespace)
		}
	}
	if q.count[j.namespace]--; q.count[j.namespace] == 0 {
		delete(q.count, j.namespace)
	}
	q.wake()
	return true
}

func (q *queue) settle(j *job) {
	if q.running[j.namespace]--; q.running[j.namespace] <= 0 {
		delete(q.running, j.namespace)
	}
	if j.sent = j.offset; j.sent >= j.written {
		j.since = time.Time{}
	}
}

// writtenTo returns the offset up to which bytes of a stream are known to be stored.
func (q *queue) writtenTo(j *job) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return j.written
}

// all returns all jobs. It is called when no worker runs.
func (q *queue) all() (list []*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		list = append(list, j)
	}
	return list
}

// lag returns since when the oldest bytes are stored that aren't sent, and how many are.
func (q *queue) lag() (since time.Time, bytes int64, jobs int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if j.since.IsZero() {
			continue
		}
		if since.IsZero() || j.since.Before(since) {
			since = j.since
		}
		bytes += max(0, j.written-j.sent)
	}
	return since, bytes, len(q.jobs)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// A jobHeap has the jobs that wait, the one that is due next at the top.
type jobHeap []*job

func (h *jobHeap) Len() int           { return len(*h) }
func (h *jobHeap) Less(i, j int) bool { return (*h)[i].due.Before((*h)[j].due) }
func (h *jobHeap) Swap(i, j int) {
	(*h)[i], (*h)[j] = (*h)[j], (*h)[i]
	(*h)[i].at, (*h)[j].at = i, j
}

// Push implements heap.Interface.
func (h *jobHeap) Push(x any) {
	j := x.(*job)
	j.at = len(*h)
	*h = append(*h, j)
}

// Pop implements heap.Interface.
func (h *jobHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}
