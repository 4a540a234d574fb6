// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// pushFile pushes an image of one layer that takes long to make: the cache keeps it as a
// file. The recipe is all that the layer depends on; write writes it as a tar archive.
func (i Image) pushFile(ctx context.Context, l layout.Layout, recipe string, write func(context.Context, io.Writer) error) error {
	input, err := i.input("", strings.NewReader(recipe+" "+runtime.GOARCH))
	if err != nil {
		return err
	}
	for _, tag := range i.Tags {
		err := i.push(ctx, tag, input, func() (remote.Taggable, error) {
			file := l.Layers(path.Base(i.Repository) + "-" + input[:8] + ".tar.gz")
			if err := writeLayer(ctx, file, write); err != nil {
				return nil, err
			}
			layer, err := tarball.LayerFromFile(file, tarball.WithMediaType(types.OCILayer))
			if err != nil {
				return nil, err
			}
			base, err := fetch(ctx, "")
			if err != nil {
				return nil, err
			}
			return i.make(base, runtime.GOARCH, input, layer)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeLayer writes a compressed layer, unless it is there. The file appears when it is
// complete.
func writeLayer(ctx context.Context, file string, write func(context.Context, io.Writer) error) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	partial, err := os.Create(file + ".partial")
	if err != nil {
		return err
	}
	defer partial.Close()
	buffer := bufio.NewWriterSize(partial, 1<<20)
	zip, err := gzip.NewWriterLevel(buffer, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := write(ctx, zip); err != nil {
		return err
	}
	if err := errors.Join(zip.Close(), buffer.Flush(), partial.Close()); err != nil {
		return err
	}
	return os.Rename(partial.Name(), file)
}
