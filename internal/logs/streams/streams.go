// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package streams stores the output of containers as streams of bytes, in objects that any
// number of replicas write and read without coordination.
//
// A stream is a directory of objects:
//
//	meta                     its source
//	data/<from>-<len>        bytes, as a gzip member with their times (package times)
//	joined/<from>-<len>      many of these in one object, which takes precedence (joined.go)
//	redact/<from>-<len>      bytes that nobody may read any more (redact.go)
//	drop/<from>-<len>        a marker of bytes that will never come
//	trim/<0>-<len>           up to where the stream was deleted (trim.go)
//	claim/<from>             the length of an append by a client that knows no offset
//	end                      its length, once it is complete
//	erased                   its source, after somebody has deleted it (erase.go)
//
// Offsets and lengths are hexadecimal, in bytes before compression. A repeated request
// writes an object of the same name, so it changes nothing. Objects may be written in any
// order; overlaps are resolved by readers (layout.go). The index has an empty object
// pods/<namespace>/<pod>/<id> for each stream, and labels/<namespace>/<key>/<value>/<id>
// for each of its labels (list.go). A stream that is being deleted has gone/<id>
// (remove.go), and one that is followed has followed/<id>-<slot> (follows.go). held/ has
// whose streams aren't deleted (holds.go).
package streams

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// The errors of a client's making.
var (
	ErrNoStream = errors.New("there is no such stream")
	ErrEnded    = errors.New("the stream ends before that byte")
	ErrConflict = errors.New("the stream has another length")
	// ErrPodStreams says that a pod can't have another stream.
	ErrPodStreams = fmt.Errorf("pods of this name have %d streams of logs: wait until older logs are deleted, or give the pod another name", MaxPodStreams)
)

// MaxPodStreams bounds the streams of all pods with a name, of which lists have the newest
// MaxListed. A stream with MaxLabels takes some 23 inodes of a volume, so this many take
// about a quarter of those of the default volume.
const MaxPodStreams = 8_000

// A Source is where a stream comes from. It is unique for each stream.
type Source struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	PodUID    string `json:"podUID"`
	// Container and Start are what the client says, possibly nothing. Start distinguishes
	// the starts of a container.
	Container string `json:"container,omitempty"`
	Start     string `json:"start,omitempty"`
	Name      string `json:"name"` // such as stdout
	// Labels are the labels of the pod by which the stream can be listed. They don't
	// identify the stream: if several requests create it, those of the first are stored.
	Labels map[string]string `json:"labels,omitempty"`
	// NamespaceUID distinguishes namespaces of the same name. It is "" if it wasn't known.
	// It doesn't identify the stream either.
	NamespaceUID string `json:"namespaceUID,omitempty"`
	// Surplus says that the namespace had reached its limit of streams. It doesn't identify
	// the stream either.
	Surplus bool `json:"surplus,omitempty"`
}

// A Store stores streams in a bucket.
type Store struct {
	bucket     storage.Bucket
	key        []byte
	admissions *admissions
	layouts    *layoutCache
	hold       *memoryHold                // the memory of reads, nil for unlimited
	owner      string                     // the namespace of the writers
	took       func(bytes, streams int64) // see WithAccounting

	podStreams *podStreams
	follows    *follows
	ends       *ends
	searching  chan struct{} // slots for what searches compute
	redacters  int           // see there
}

// WithAccounting returns the same store for the writers of a namespace. It calls took after
// each write, with the bytes including ObjectOverhead, and the number of new streams.
func (s *Store) WithAccounting(namespace string, took func(bytes, streams int64)) *Store {
	counting := *s
	counting.owner, counting.took = namespace, took
	return &counting
}

// keyObject has the key of the HMAC that makes IDs. Without the key, nobody can guess an
// ID.
const keyObject = "key"

// Open returns the store in a bucket. The first replica creates the key.
func Open(ctx context.Context, bucket storage.Bucket) (*Store, error) {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	err := bucket.Create(ctx, keyObject, key)
	if errors.Is(err, storage.ErrExists) {
		key, err = bucket.Read(ctx, keyObject)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of the streams: %w", err)
	}
	if len(key) != sha256.Size {
		return nil, fmt.Errorf("the key of the streams has %d bytes, not %d: restore object %q, or all IDs change", len(key), sha256.Size, keyObject)
	}
	return newStore(bucket, key), nil
}

func newStore(bucket storage.Bucket, key []byte) *Store {
	return &Store{bucket: bucket, key: key, admissions: newAdmissions(MaxPieces), layouts: newLayoutCache(), took: func(int64, int64) {}, podStreams: newPodStreams(MaxPodStreams), follows: newFollows(), ends: newEnds(), searching: newSearchSlots(), redacters: redacters}
}

// Check returns an error if the bucket can't be used, or has another key than at Open.
func (s *Store) Check(ctx context.Context) error {
	key, err := s.bucket.Read(ctx, keyObject)
	if err == nil && !bytes.Equal(key, s.key) {
		err = fmt.Errorf("object %q has changed: restore it, or restart the log service", keyObject)
	}
	if err != nil {
		return fmt.Errorf("checking the streams: %w", err)
	}
	return nil
}

// id returns the ID of a source. It is always the same, and doesn't reveal the source.
func (s *Store) id(source Source) string {
	mac := hmac.New(sha256.New, s.key)
	for _, part := range []string{source.Namespace, source.Pod, source.PodUID, source.Container, source.Start, source.Name} {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(part), part) // never fails
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// IsID reports whether a text has the form of an ID. IDs from clients become parts of
// keys.
func IsID(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == 16
}

func directory(id string) string { return "streams/" + id + "/" }

// Create creates the stream of a source if it doesn't exist, and returns its ID.
func (s *Store) Create(ctx context.Context, source Source) (id string, err error) {
	if _, err := indexDirectories(source); err != nil {
		return "", fmt.Errorf("creating a stream: %w", err)
	}
	meta, err := json.Marshal(source)
	if err != nil {
		return "", fmt.Errorf("creating a stream: %w", err)
	}
	id = s.id(source)
	made, err := s.Source(ctx, id)
	if err == nil {
		source = made // the labels of the first request count, or each request could add some
	} else if errors.Is(err, ErrNoStream) {
		source, err = s.createMeta(ctx, id, source, meta)
	}
	if err != nil {
		return "", fmt.Errorf("creating a stream: %w", err)
	}
	// The pod gets the ID only after this, so each stream with a byte is in the index.
	if err := s.index(ctx, id, source); err != nil {
		return "", err
	}
	return id, nil
}

// createMeta creates the meta of a stream, and returns the source that it has: that of
// another request, if that was faster.
func (s *Store) createMeta(ctx context.Context, id string, source Source, meta []byte) (Source, error) {
	if err := s.checkPodStreams(ctx, source); err != nil {
		return source, err
	}
	err := s.bucket.Create(ctx, directory(id)+"meta", meta)
	if errors.Is(err, storage.ErrExists) {
		return s.Source(ctx, id)
	}
	if err == nil {
		s.took(int64(len(meta))+ObjectOverhead, 1)
	}
	return source, err
}

// Exists reports whether the stream of a source exists.
func (s *Store) Exists(ctx context.Context, source Source) (bool, error) {
	_, err := s.Source(ctx, s.id(source))
	if errors.Is(err, ErrNoStream) {
		return false, nil
	}
	return err == nil, err
}

// WasDeleted reports whether the stream of a source was erased or deleted, as far as something is
// left of that.
func (s *Store) WasDeleted(ctx context.Context, source Source) (bool, error) {
	id := s.id(source)
	for _, key := range []string{directory(id) + erased, tombstones + id} {
		_, err := s.bucket.Read(ctx, key)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, storage.ErrNotFound) {
			return false, fmt.Errorf("looking for the deletion of stream %q: %w", id, err)
		}
	}
	return false, nil
}

// indexDirectories returns the directories that list a stream.
func indexDirectories(source Source) (list []string, err error) {
	listed, err := podDirectory(source.Namespace, source.Pod)
	if err == nil {
		err = checkLabels(source.Labels)
	}
	if err != nil {
		return nil, err
	}
	list = append(list, listed)
	for key, value := range source.Labels {
		if listed, err = labelDirectory(source.Namespace, key, value); err != nil {
			return nil, err
		}
		list = append(list, listed)
	}
	return list, nil
}

// index adds a stream to the index.
func (s *Store) index(ctx context.Context, id string, source Source) error {
	entries, err := indexDirectories(source)
	if err != nil {
		return fmt.Errorf("listing stream %q: %w", id, err)
	}
	for i, entry := range entries {
		err := s.bucket.Create(ctx, entry+id, nil)
		if err == nil {
			s.took(entryBytes(i), 0)
		} else if !errors.Is(err, storage.ErrExists) {
			return fmt.Errorf("listing a new stream in %s: %w", entry, err)
		}
	}
	return nil
}

// entryBytes returns what an entry of the index costs: those of labels, which aren't the
// first, have a directory of their own, as a rule.
func entryBytes(i int) int64 { return int64(min(i, 1)+1) * ObjectOverhead }

// IndexBytes returns what the entries of a stream in the index cost.
func IndexBytes(source Source) (bytes int64) {
	for i := range 1 + len(source.Labels) {
		bytes += entryBytes(i)
	}
	return bytes
}

// create creates an object that is determined by its name, so an existing one is no
// error.
func (s *Store) create(ctx context.Context, key string, content []byte) error {
	err := s.bucket.Create(ctx, key, content)
	if err == nil {
		s.took(int64(len(content))+ObjectOverhead, 0)
	}
	if errors.Is(err, storage.ErrExists) {
		return nil
	}
	return err
}

// Source returns the source of a stream, or ErrNoStream.
func (s *Store) Source(ctx context.Context, id string) (source Source, err error) {
	if !IsID(id) {
		return source, fmt.Errorf("stream %q: %w", id, ErrNoStream)
	}
	meta, err := s.bucket.Read(ctx, directory(id)+"meta")
	if errors.Is(err, storage.ErrNotFound) {
		err = ErrNoStream
	}
	if err == nil {
		err = json.Unmarshal(meta, &source)
	}
	if err != nil {
		return source, fmt.Errorf("stream %q: %w", id, err)
	}
	return source, nil
}

// Created returns when a stream was created, or ErrNoStream.
func (s *Store) Created(ctx context.Context, id string) (created time.Time, err error) {
	err = s.bucket.Each(ctx, directory(id), func(o storage.Object) bool {
		if o.Name == "meta" {
			created = o.Written
		}
		return created.IsZero()
	})
	if err == nil && created.IsZero() {
		err = ErrNoStream
	}
	if err != nil {
		return created, fmt.Errorf("looking for the time of stream %q: %w", id, err)
	}
	return created, nil
}
