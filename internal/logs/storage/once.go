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

// atTheSameTime is how many write an object to try whether one of them wins.
const atTheSameTime = 4

// tryOnce returns an error if the store lets an object be written twice: then
// replicas would overwrite each other's bytes.
func (o *ObjectStore) tryOnce(ctx context.Context) (err error) {
	key := unfinished + "/" + rand.Text()
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
	for range atTheSameTime {
		group.Go(func() error { return create(together) })
	}
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return fmt.Errorf("%w; the service has to be allowed to read, write, list and delete objects of it", err)
	}
	if err := create(ctx); err != nil {
		return err
	}
	if n := won.Load(); n != 1 {
		return fmt.Errorf("of %d that wrote one object, %d overwrote others or were overwritten: the store has to honour conditional writes "+
			"(If-None-Match: * on S3 and Azure, ifGenerationMatch=0 on Google Cloud Storage); use a version of it that does, or another, or -directory", atTheSameTime+1, n-1)
	}
	_, err = o.List(ctx, unfinished)
	return err
}
