// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://
	"gocloud.dev/gcerrors"
)

// An ObjectStore is a Bucket of a cloud's, or of a server that has the same API.
// Any number of replicas may use it at once.
type ObjectStore struct {
	bucket *blob.Bucket
	// buffer is what a write may hold beside its content, in bytes, 0 for what the
	// store's client thinks right and -1 for none.
	buffer int
}

// schemes are those of URLs that can be opened, with the buffers of writes. Google's
// client would take 16 MiB for each, to go on after a failure; ours are repeated whole.
var schemes = map[string]int{"s3": 0, "gs": -1, "azblob": 0}

// OpenObjectStore opens a bucket by its URL, such as s3://logs?region=eu-central-1,
// gs://logs or azblob://logs, and tries whether it writes an object only once.
// Credentials are those that the cloud's own programs would find.
func OpenObjectStore(ctx context.Context, location string) (*ObjectStore, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("opening the bucket of the logs: %w", err)
	}
	buffer, known := schemes[u.Scheme]
	if !known || u.Host == "" {
		return nil, fmt.Errorf("opening the bucket of the logs, %q: use s3://NAME, gs://NAME or azblob://NAME", u.Redacted())
	}
	bucket, err := blob.OpenBucket(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("opening the bucket of the logs, %q: %w", u.Redacted(), err)
	}
	o := &ObjectStore{bucket, buffer}
	if err := o.tryOnce(ctx); err != nil {
		return nil, fmt.Errorf("trying the bucket of the logs, %q: %w", u.Redacted(), errors.Join(err, o.Close()))
	}
	return o, nil
}

// Close closes connections.
func (o *ObjectStore) Close() error { return o.bucket.Close() }

// writer is the name of what an object says of who wrote it.
const writer = "writer"

// Create implements Bucket.
func (o *ObjectStore) Create(ctx context.Context, key string, content []byte) error {
	if !fs.ValidPath(key) || key == "." {
		return fmt.Errorf("writing %q: %w", key, fs.ErrInvalid)
	}
	me := rand.Text()
	err := attempt(ctx, func(ctx context.Context) error {
		err := o.bucket.Upload(ctx, key, bytes.NewReader(content), &blob.WriterOptions{
			IfNotExist: true, ContentType: "application/octet-stream", BufferSize: o.buffer, Metadata: map[string]string{writer: me},
		})
		if code(err) == gcerrors.FailedPrecondition {
			err = o.unlessMine(ctx, key, me)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %q: %w", key, err)
	}
	return nil
}

// unlessMine returns ErrExists, unless we have written the object ourselves by a
// request whose answer was lost: the stores' clients repeat it.
func (o *ObjectStore) unlessMine(ctx context.Context, key, me string) error {
	attributes, err := o.bucket.Attributes(ctx, key)
	switch {
	case code(err) == gcerrors.NotFound: // it has just been deleted
		return ErrExists
	case err != nil:
		return err
	case attributes.Metadata[writer] != me:
		return ErrExists
	}
	return nil
}

// Read implements Bucket.
func (o *ObjectStore) Read(ctx context.Context, key string) (content []byte, err error) {
	err = attempt(ctx, func(ctx context.Context) (err error) {
		if content, err = o.bucket.ReadAll(ctx, key); code(err) == gcerrors.NotFound {
			err = ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", key, err)
	}
	return content, nil
}

// List implements Bucket.
func (o *ObjectStore) List(ctx context.Context, directory string) (objects []Object, err error) {
	err = o.Each(ctx, directory, func(object Object) bool {
		objects = append(objects, object)
		return true
	})
	if err != nil {
		return nil, err
	}
	// Some stores have another order.
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return objects, nil
}

// Each implements Bucket.
func (o *ObjectStore) Each(ctx context.Context, directory string, each func(Object) bool) error {
	return o.entries(ctx, directory, func(entry *blob.ListObject) bool {
		name := path.Base(entry.Key)
		return entry.IsDir || strings.HasSuffix(entry.Key, "/") || each(Object{Name: name, Size: entry.Size, Written: entry.ModTime})
	})
}

// Directories implements Bucket.
func (o *ObjectStore) Directories(ctx context.Context, directory string, each func(name string) bool) error {
	return o.entries(ctx, directory, func(entry *blob.ListObject) bool {
		return !entry.IsDir || each(path.Base(entry.Key))
	})
}

// entries passes on what is in a directory, page by page.
func (o *ObjectStore) entries(ctx context.Context, directory string, each func(*blob.ListObject) bool) error {
	options := &blob.ListOptions{Delimiter: "/"}
	if clean := path.Clean(directory); clean != "." {
		options.Prefix = clean + "/"
	}
	for page := blob.FirstPageToken; len(page) > 0; {
		var entries []*blob.ListObject
		var next []byte
		err := attempt(ctx, func(ctx context.Context) (err error) {
			entries, next, err = o.bucket.ListPage(ctx, page, atOnce, options)
			return err
		})
		if err != nil {
			return fmt.Errorf("listing %q: %w", directory, err)
		}
		for _, entry := range entries {
			if !each(entry) {
				return nil
			}
		}
		page = next
	}
	return nil
}

// Delete implements Bucket.
func (o *ObjectStore) Delete(ctx context.Context, key string) error {
	err := attempt(ctx, func(ctx context.Context) error {
		err := o.bucket.Delete(ctx, key)
		if code(err) == gcerrors.NotFound {
			err = nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting %q: %w", key, err)
	}
	return nil
}
