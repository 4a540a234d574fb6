// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"
)

const (
	// maxBatch is how many objects S3 deletes in a request.
	maxBatch = 1000
	// maxDeleters bounds the requests of a DeleteAll at the same time.
	maxDeleters = 16
)

// batches delete many objects in a request, which only S3 does.
type batches struct {
	client         *s3.Client
	bucket, prefix string
}

// batchesOf returns nil unless the bucket is on S3.
func batchesOf(bucket *blob.Bucket, location *url.URL) *batches {
	var client *s3.Client
	if location.Scheme != "s3" || !bucket.As(&client) {
		return nil
	}
	return &batches{client: client, bucket: location.Host, prefix: location.Query().Get("prefix")}
}

// delete deletes objects, at most maxBatch, and returns those that are left.
func (b *batches) delete(ctx context.Context, keys []string) (left []string) {
	objects := make([]types.ObjectIdentifier, len(keys))
	for i, key := range keys {
		objects[i].Key = new(b.prefix + key)
	}
	var answer *s3.DeleteObjectsOutput
	err := withRetries(ctx, func(ctx context.Context) (err error) {
		answer, err = b.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &b.bucket, Delete: &types.Delete{Objects: objects, Quiet: new(true)}})
		return err
	})
	if err != nil {
		return keys // servers with S3's API may lack this request
	}
	for _, failure := range answer.Errors {
		if failure.Key == nil {
			return keys
		}
		left = append(left, strings.TrimPrefix(*failure.Key, b.prefix))
	}
	return left
}

// DeleteAll implements Bucket. What a request for many objects has left is deleted by one for
// each, which says why it fails.
func (o *ObjectStore) DeleteAll(ctx context.Context, keys []string) error {
	var group errgroup.Group
	group.SetLimit(maxDeleters)
	for some := range slices.Chunk(keys, maxBatch) {
		if o.batch != nil && len(some) > 1 {
			some = o.batch.delete(ctx, some)
		}
		for _, key := range some {
			group.Go(func() error { return o.Delete(ctx, key) })
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("deleting %d objects: %w", len(keys), err)
	}
	return nil
}
