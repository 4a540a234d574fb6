// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// concurrentWriters is how many writers compete for the object of checkExclusiveCreate.
const concurrentWriters = 4

// checkExclusiveCreate returns an error if the store lets an object be overwritten:
// replicas would destroy each other's data.
func (o *ObjectStore) checkExclusiveCreate(ctx context.Context) (err error) {
	key := temporaryDirectory + "/" + rand.Text()
	defer func() { err = errors.Join(err, o.Delete(context.WithoutCancel(ctx), key)) }()
	var won atomic.Int32
	create := func(ctx context.Context) error {
		err := o.Create(ctx, key, []byte("written once"))
		if err == nil {
			won.Add(1)
		}
		if errors.Is(err, ErrExists) {
			err = nil
		}
		return err
	}
	group, together := errgroup.WithContext(ctx)
	for range concurrentWriters {
		group.Go(func() error { return create(together) })
	}
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return fmt.Errorf("%w; allow the service to read, write, list and delete objects of the bucket", err)
	}
	if err := create(ctx); err != nil {
		return err
	}
	if n := won.Load(); n != 1 {
		return fmt.Errorf("of %d writes of one object, %d overwrote it: the store ignores the conditions of writes "+
			"(If-None-Match: * on S3 and Azure, ifGenerationMatch=0 on Google Cloud Storage); use a store that honours them, or -directory", concurrentWriters+1, n-1)
	}
	_, err = o.List(ctx, temporaryDirectory)
	return err
}
