// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// Each replica writes a page of its journal at each sweep, journal/<replica>-<n>: which
// streams it has written since the page before, and how much the namespaces have in its
// partitions. So other replicas know what has changed, how much is stored, and who lives. The
// name of its last page ends with -left.
const journalDirectory = "journal/"

const (
	// pageVersion is that of the format.
	pageVersion = 1
	// pageAge is for how long a page is kept: longer than a ledger isn't saved.
	pageAge = 2 * time.Hour
	// maxPageBytes bounds a page that is read, after decompression.
	maxPageBytes = 64 << 20
	// presenceSweeps is after how many intervals without a page a replica counts as gone,
	// and minPresence is the least time.
	presenceSweeps, minPresence = 3, 10 * time.Minute

	hasLeft = "-left"
)

// A page is one of a replica's journal.
type page struct {
	Version int               `json:"version"`
	All     bool              `json:"all,omitempty"` // whether any stream may have been written
	Streams map[string]growth `json:"streams,omitempty"`
	Totals  map[int]total     `json:"totals,omitempty"` // by partition
}

// written returns the streams. Those with an invalid ID are left out.
func (p *page) written() map[streamID]growth {
	written := make(map[streamID]growth, len(p.Streams))
	for id, g := range p.Streams {
		if parsed, ok := parseID(id); ok {
			written[parsed] = g
		}
	}
	return written
}

// errPage says that a page can't be used.
var errPage = errors.New("the page of a journal is damaged")

// A pageName is the name of a page.
type pageName struct {
	replica string
	number  int64
}

// A listedPage is a page in a listing.
type listedPage struct {
	pageName
	left bool
	key  string
	at   time.Time
}

func parsePage(o storage.Object) (p listedPage, ok bool) {
	name, left := strings.CutSuffix(o.Name, hasLeft)
	replica, text, _ := strings.Cut(name, "-")
	number, err := strconv.ParseInt(text, 16, 64)
	p = listedPage{pageName{replica, number}, left, journalDirectory + o.Name, o.Written}
	return p, err == nil && number > 0 && replica != "" && p.key == p.keyOf(left)
}

func (n pageName) keyOf(left bool) string {
	key := fmt.Sprintf("%s%s-%08x", journalDirectory, n.replica, n.number)
	if left {
		key += hasLeft
	}
	return key
}

// A journal is that of this replica.
type journal struct {
	bucket  storage.Bucket
	replica string

	lock   chan struct{} // has room for whoever writes a page
	number int64         // of the last page
}

func newJournal(bucket storage.Bucket) *journal {
	return &journal{bucket: bucket, replica: strings.ToLower(rand.Text()), lock: make(chan struct{}, 1)}
}

// publish writes a page. After a failure, the next page has its streams as well.
func (k *Keeper) publish(ctx context.Context, now time.Time, left bool) error {
	j := k.journal
	select {
	case j.lock <- struct{}{}:
		defer func() { <-j.lock }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	name := pageName{j.replica, j.number + 1}
	written, all := k.usage.take(name, now)
	p := page{Version: pageVersion, All: all, Streams: make(map[string]growth, len(written)), Totals: map[int]total{}}
	for id, g := range written {
		p.Streams[id.String()] = g
	}
	for i, of := range k.partitions {
		if of.isTotal.Load() {
			p.Totals[i] = k.usage.total(i)
		}
	}
	content, err := p.encode()
	if err == nil {
		err = j.bucket.Create(ctx, name.keyOf(left), content)
	}
	j.number++ // also after a failure: the page may be there
	if err != nil {
		k.usage.giveBack(name, written, all)
		return fmt.Errorf("noting which streams were written: %w", err)
	}
	return nil
}

func (p *page) encode() ([]byte, error) {
	var packed bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // a valid level
	err := errors.Join(json.NewEncoder(zip).Encode(p), zip.Close())
	return packed.Bytes(), err
}

func decodePage(content []byte) (*page, error) {
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(zip, maxPageBytes))
	if err != nil {
		return nil, err
	}
	var p page
	if err := json.Unmarshal(plain, &p); err != nil {
		return nil, err
	}
	if p.Version != pageVersion {
		return nil, fmt.Errorf("its format is %d", p.Version)
	}
	return &p, nil
}

// list returns the pages of all replicas, sorted by replica and number.
func (j *journal) list(ctx context.Context) (pages []listedPage, err error) {
	err = j.bucket.Each(ctx, journalDirectory, func(o storage.Object) bool {
		if p, ok := parsePage(o); ok {
			pages = append(pages, p)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("listing the journal: %w", err)
	}
	slices.SortFunc(pages, func(a, b listedPage) int {
		if a.replica != b.replica {
			return strings.Compare(a.replica, b.replica)
		}
		return int(a.number - b.number)
	})
	return pages, nil
}

func (j *journal) read(ctx context.Context, from listedPage) (*page, error) {
	content, err := j.bucket.Read(ctx, from.key)
	if err != nil {
		return nil, err
	}
	p, err := decodePage(content)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errPage, from.key, err)
	}
	return p, nil
}

// share returns the partitions of this replica, from the first one up to before the last one:
// each replica that lives has as many as the others, in the order of their names.
func (k *Keeper) share(pages []listedPage, now time.Time) (first, end int) {
	if k.Alone {
		return 0, partitions
	}
	presence := max(minPresence, presenceSweeps*k.limits.Load().Interval)
	living := map[string]bool{}
	for _, p := range pages { // the last page of each replica counts
		age := now.Sub(p.at)
		living[p.replica] = !p.left && age < presence && age > -presence
	}
	living[k.journal.replica] = true
	before, count := 0, 0
	for replica, lives := range living {
		if lives {
			count++
			if replica < k.journal.replica {
				before++
			}
		}
	}
	return partitions * before / count, partitions * (before + 1) / count
}
