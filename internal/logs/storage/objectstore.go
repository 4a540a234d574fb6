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
	"time"

	gcs "cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://
	"gocloud.dev/gcerrors"
)

// An ObjectStore is a Bucket at a cloud provider, or on a server with the same API. Any
// number of replicas may use it at once.
type ObjectStore struct {
	bucket *blob.Bucket
	// buffer is the buffer of a write, in bytes: 0 for the default of the store's client, -1
	// for none.
	buffer int
	batch  *batches // nil if the store deletes one object at a time
}

// writeBuffers are the buffers of writes, by the scheme of the URL. Google's client would
// use 16 MiB for each write, to resume it after a failure. withRetries repeats a write as
// a whole, so it needs no buffer.
var writeBuffers = map[string]int{"s3": 0, "gs": -1, "azblob": 0}

// OpenObjectStore opens a bucket by its URL, such as s3://logs?region=eu-central-1,
// gs://logs or azblob://logs, and checks that the store supports conditional writes. It
// finds credentials as the provider's own tools do.
func OpenObjectStore(ctx context.Context, location string) (*ObjectStore, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("opening the bucket of the logs: %w", err)
	}
	buffer, known := writeBuffers[u.Scheme]
	if !known || u.Host == "" {
		return nil, fmt.Errorf("opening the bucket of the logs, %q: use s3://NAME, gs://NAME or azblob://NAME", u.Redacted())
	}
	bucket, err := blob.OpenBucket(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("opening the bucket of the logs, %q: %w", u.Redacted(), err)
	}
	o := &ObjectStore{bucket, buffer, batchesOf(bucket, u)}
	if err := o.checkExclusiveCreate(ctx); err != nil {
		return nil, fmt.Errorf("checking the bucket of the logs, %q: %w", u.Redacted(), errors.Join(err, o.Close()))
	}
	return o, nil
}

// Close closes the connections.
func (o *ObjectStore) Close() error { return o.bucket.Close() }

// writerKey is the metadata key of an object with the random ID of the write.
const writerKey = "writer"

// Create implements Bucket.
func (o *ObjectStore) Create(ctx context.Context, key string, content []byte) error {
	if !fs.ValidPath(key) || key == "." {
		return fmt.Errorf("writing %q: %w", key, fs.ErrInvalid)
	}
	id := rand.Text()
	err := withRetries(ctx, func(ctx context.Context) error {
		err := o.bucket.Upload(ctx, key, bytes.NewReader(content), &blob.WriterOptions{
			IfNotExist: true, ContentType: "application/octet-stream", BufferSize: o.buffer, Metadata: map[string]string{writerKey: id},
		})
		if errorCode(err) == gcerrors.FailedPrecondition {
			err = o.existsUnlessOwn(ctx, key, id)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %q: %w", key, err)
	}
	return nil
}

// existsUnlessOwn returns ErrExists unless the same write created the object: when a
// response is lost, the store's client repeats the request.
func (o *ObjectStore) existsUnlessOwn(ctx context.Context, key, id string) error {
	attributes, err := o.bucket.Attributes(ctx, key)
	switch {
	case errorCode(err) == gcerrors.NotFound: // the object was just deleted
		return ErrExists
	case err != nil:
		return err
	case attributes.Metadata[writerKey] != id:
		return ErrExists
	}
	return nil
}

// Read implements Bucket.
func (o *ObjectStore) Read(ctx context.Context, key string) (content []byte, err error) {
	err = withRetries(ctx, func(ctx context.Context) (err error) {
		if content, err = o.bucket.ReadAll(ctx, key); errorCode(err) == gcerrors.NotFound {
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
	// Not all stores list in this order.
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return objects, nil
}

// Each implements Bucket.
func (o *ObjectStore) Each(ctx context.Context, directory string, each func(Object) bool) error {
	return o.entries(ctx, directory, func(entry *blob.ListObject) bool {
		name := path.Base(entry.Key)
		return entry.IsDir || strings.HasSuffix(entry.Key, "/") || each(Object{Name: name, Size: entry.Size, Written: creationTime(entry)})
	})
}

// Walk implements Bucket.
func (o *ObjectStore) Walk(ctx context.Context, directory, after string, each func(Object) bool) error {
	prefix := path.Clean(directory) + "/"
	return o.pages(ctx, directory, &blob.ListOptions{Prefix: prefix, BeforeList: startAfter(prefix, after)}, func(entry *blob.ListObject) bool {
		name := strings.TrimPrefix(entry.Key, prefix)
		return name <= after || strings.HasSuffix(name, "/") || each(Object{Name: name, Size: entry.Size, Written: creationTime(entry)})
	})
}

// Scan implements Bucket.
func (o *ObjectStore) Scan(ctx context.Context, prefix string, each func(Object) bool) error {
	return o.pages(ctx, prefix, &blob.ListOptions{Prefix: prefix}, func(entry *blob.ListObject) bool {
		return strings.HasSuffix(entry.Key, "/") || each(Object{Name: entry.Key, Size: entry.Size, Written: creationTime(entry)})
	})
}

// startAfter has S3 and Google list only what comes after a name. Azure can't.
func startAfter(prefix, after string) func(asFunc func(any) bool) error {
	if after == "" {
		return nil
	}
	return func(asFunc func(any) bool) error {
		var amazon *s3.ListObjectsV2Input
		var google *gcs.Query
		key := prefix + after
		switch {
		case asFunc(&amazon):
			amazon.StartAfter = &key
		case asFunc(&google):
			google.StartOffset = key // that of the first object, which Walk leaves out
		}
		return nil
	}
}

// creationTime returns when an object was created. Google's time of modification isn't
// enough: it is renewed by each change of the metadata, such as that of the storage class
// by a lifecycle rule. On S3 and Azure, neither a storage class nor an access tier renews
// it.
func creationTime(entry *blob.ListObject) time.Time {
	var google gcs.ObjectAttrs
	if entry.As(&google) {
		return google.Created
	}
	return entry.ModTime
}

// Directories implements Bucket.
func (o *ObjectStore) Directories(ctx context.Context, directory string, each func(name string) bool) error {
	return o.entries(ctx, directory, func(entry *blob.ListObject) bool {
		return !entry.IsDir || each(path.Base(entry.Key))
	})
}

// entries calls each for the entries of a directory.
func (o *ObjectStore) entries(ctx context.Context, directory string, each func(*blob.ListObject) bool) error {
	options := &blob.ListOptions{Delimiter: "/"}
	if clean := path.Clean(directory); clean != "." {
		options.Prefix = clean + "/"
	}
	return o.pages(ctx, directory, options, each)
}

// pages calls each for the entries of all pages of a listing.
func (o *ObjectStore) pages(ctx context.Context, directory string, options *blob.ListOptions, each func(*blob.ListObject) bool) error {
	for page := blob.FirstPageToken; len(page) > 0; {
		var entries []*blob.ListObject
		var next []byte
		err := withRetries(ctx, func(ctx context.Context) (err error) {
			entries, next, err = o.bucket.ListPage(ctx, page, pageSize, options)
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
	err := withRetries(ctx, func(ctx context.Context) error {
		err := o.bucket.Delete(ctx, key)
		if errorCode(err) == gcerrors.NotFound {
			err = nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting %q: %w", key, err)
	}
	return nil
}
