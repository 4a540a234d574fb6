// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package streams keeps what containers print, as streams of bytes, in objects
// that any number of replicas write and read without a word between them.
//
// A stream is a directory of objects:
//
//	meta                     whose it is
//	data/<from>-<len>        bytes, as a gzip member that says when they came (package times)
//	joined/<from>-<len>      many of them in one, which count before the others (joined.go)
//	drop/<from>-<len>        bytes that will never come
//	claim/<from>             length of what is appended there by a client that knows no offset
//	end                      its length, when it is complete
//
// Offsets and lengths are hexadecimal, in bytes before compression. An object
// that comes again has the same name, so a request can be repeated. Objects may
// come in any order; what overlaps is settled when they are read (layout.go).
// An empty object pods/<namespace>/<pod>/<id> leads to each, and one
// labels/<namespace>/<key>/<value>/<id> for each of its labels (list.go). One that
// is being deleted has gone/<id> (remove.go).
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

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// What a client can do wrong.
var (
	ErrNoStream = errors.New("there is no such stream")
	ErrEnded    = errors.New("the stream ended before that byte")
	ErrConflict = errors.New("the stream has another length")
)

// A Source is the one place that a stream comes from. Two streams never have the same.
type Source struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	PodUID    string `json:"podUID"`
	// Container and Start, which tells the lives of a container apart, are what
	// the client says; empty if it says nothing.
	Container string `json:"container,omitempty"`
	Start     string `json:"start,omitempty"`
	Name      string `json:"name"` // such as stdout
	// Labels say what the pod belongs to. They are no part of what makes this stream
	// another one: of several requests for it, those of the first count.
	Labels map[string]string `json:"labels,omitempty"`
	// Surplus says that the namespace had as many streams as it may have already. Nor is
	// it a part of that.
	Surplus bool `json:"surplus,omitempty"`
}

// A Store has streams.
type Store struct {
	bucket storage.Bucket
	key    []byte
	bounds *bounds
	looks  *looks
	hold   *hold  // what answers take, if that is bounded
	owner  string // the namespace whose requests these are
	took   func(bytes, streams int64)
}

// Counting returns the same store for a namespace's writers, which says what it has
// written: bytes, of which each object has some more than its content, and new streams.
func (s *Store) Counting(namespace string, took func(bytes, streams int64)) *Store {
	counting := *s
	counting.owner, counting.took = namespace, took
	return &counting
}

// keyObject has the key by which the IDs of streams are made: whoever doesn't
// know it guesses none.
const keyObject = "key"

// Open returns the streams of a bucket, where the first replica leaves a key.
func Open(ctx context.Context, bucket storage.Bucket) (*Store, error) {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	err := bucket.Create(ctx, keyObject, key)
	if errors.Is(err, storage.ErrExists) {
		key, err = bucket.Read(ctx, keyObject)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the key of the streams: %w", err)
	}
	if len(key) != sha256.Size {
		return nil, fmt.Errorf("the key of the streams has %d bytes, not %d: restore object %q, or all IDs change", len(key), sha256.Size, keyObject)
	}
	return newStore(bucket, key), nil
}

func newStore(bucket storage.Bucket, key []byte) *Store {
	return &Store{bucket: bucket, key: key, bounds: newBounds(MaxSmall), looks: newLooks(), took: func(int64, int64) {}}
}

// Check returns an error if the bucket can't be used, or isn't the one that was opened.
func (s *Store) Check(ctx context.Context) error {
	key, err := s.bucket.Read(ctx, keyObject)
	if err == nil && !bytes.Equal(key, s.key) {
		err = fmt.Errorf("object %q has changed: restore it, or start anew", keyObject)
	}
	if err != nil {
		return fmt.Errorf("looking for the streams: %w", err)
	}
	return nil
}

// id is the same each time, and tells nothing of the source.
func (s *Store) id(source Source) string {
	mac := hmac.New(sha256.New, s.key)
	for _, part := range []string{source.Namespace, source.Pod, source.PodUID, source.Container, source.Start, source.Name} {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(part), part) // never fails
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// isID says whether a client may have its ID from us. It becomes a part of keys.
func isID(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == 16
}

func directory(id string) string { return "streams/" + id + "/" }

// Create makes the stream of a source, unless there is one, and returns its ID.
func (s *Store) Create(ctx context.Context, source Source) (id string, err error) {
	if _, err := indexOf(source); err != nil {
		return "", fmt.Errorf("creating a stream: %w", err)
	}
	meta, err := json.Marshal(source)
	if err != nil {
		return "", fmt.Errorf("creating a stream: %w", err)
	}
	id = s.id(source)
	err = s.bucket.Create(ctx, directory(id)+"meta", meta)
	if err == nil {
		s.took(int64(len(meta))+ObjectOverhead, 1)
	} else if !errors.Is(err, storage.ErrExists) {
		return "", fmt.Errorf("creating a stream: %w", err)
	}
	// Its pod isn't told the ID before, so each stream that has a byte is listed.
	if err := s.index(ctx, id, source); err != nil {
		return "", err
	}
	return id, nil
}

// Exists says whether Create would make no new stream.
func (s *Store) Exists(ctx context.Context, source Source) (bool, error) {
	_, err := s.Source(ctx, s.id(source))
	if errors.Is(err, ErrNoStream) {
		return false, nil
	}
	return err == nil, err
}

// indexOf are the directories in which a stream is listed.
func indexOf(source Source) (list []string, err error) {
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

// index lists a stream.
func (s *Store) index(ctx context.Context, id string, source Source) error {
	entries, err := indexOf(source)
	if err != nil {
		return fmt.Errorf("listing stream %q: %w", id, err)
	}
	for _, entry := range entries {
		if err := s.create(ctx, entry+id, nil); err != nil {
			return fmt.Errorf("listing a new stream in %s: %w", entry, err)
		}
	}
	return nil
}

// create writes an object whose name says all that is in it.
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

// Source says whose a stream is.
func (s *Store) Source(ctx context.Context, id string) (source Source, err error) {
	if !isID(id) {
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
