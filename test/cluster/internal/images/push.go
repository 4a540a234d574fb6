// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

// inputLabel holds the hash of what an image was made of, so that an image
// that is in the registry already is recognised without making it again.
const inputLabel = "dev.entrypointer.input"

// Push makes the images and pushes them, unless the registry has them.
func Push(ctx context.Context, images []Image) error {
	for _, image := range images {
		tar, err := image.layer()
		if err != nil {
			return fmt.Errorf("making the image %q: %w", image.Repository, err)
		}
		input, err := image.input(tar)
		if err != nil {
			return fmt.Errorf("making the image %q: %w", image.Repository, err)
		}
		for _, tag := range image.Tags {
			if err := image.push(ctx, tar, tag, input); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i Image) push(ctx context.Context, tar []byte, tag, input string) error {
	reference, err := name.NewTag(layout.Registry+"/"+i.Repository+":"+tag, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("naming the image %q: %w", i.Repository, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(transport())}
	if present, err := remote.Image(reference, options...); err == nil {
		if config, err := present.ConfigFile(); err == nil && config.Config.Labels[inputLabel] == input {
			return nil
		}
	}
	return progress.Step("pushing "+reference.Name(), func() error {
		image, err := i.make(tar, input)
		if err != nil {
			return err
		}
		return remote.Write(reference, image, options...)
	})
}

// make puts the layer into an image for this machine's platform: without one,
// Tekton wouldn't run it.
func (i Image) make(content []byte, input string) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = i.config()
	config.Config.Labels = map[string]string{inputLabel: input}
	return mutate.ConfigFile(image, config)
}

func (i Image) config() v1.Config {
	return v1.Config{
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Entrypoint: i.Entrypoint,
		Cmd:        i.Cmd,
		User:       i.User,
		WorkingDir: "/",
	}
}

// input is a hash of all that the image is made of.
func (i Image) input(tar []byte) (string, error) {
	config, err := json.Marshal(i.config())
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	hash.Write(config)
	hash.Write(tar)
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// layer is the image's files in a tar archive that is the same every time.
func (i Image) layer() ([]byte, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	present := map[string]bool{".": true}
	for _, file := range i.Files {
		if err := addParents(writer, present, file.Path); err != nil {
			return nil, err
		}
		if err := file.add(writer); err != nil {
			return nil, err
		}
		present[file.Path] = true
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

func addParents(writer *tar.Writer, present map[string]bool, file string) error {
	dir := path.Dir(file)
	if present[dir] {
		return nil
	}
	if err := addParents(writer, present, dir); err != nil {
		return err
	}
	present[dir] = true
	return File{Path: dir, Mode: 0o755}.add(writer)
}

func (f File) add(writer *tar.Writer) error {
	content := []byte(f.Content)
	header := &tar.Header{Name: f.Path, Mode: f.Mode}
	switch {
	case f.Link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, f.Link
	case f.From != "":
		var err error
		if content, err = os.ReadFile(f.From); err != nil {
			return err
		}
		header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	case f.Content != "":
		header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	default:
		header.Typeflag, header.Name = tar.TypeDir, f.Path+"/"
	}
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	_, err := writer.Write(content)
	return err
}

// transport asks no proxy for a registry on this machine.
func transport() *http.Transport {
	t := remote.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	return t
}

// digest returns what a reference stands for, "<registry>/<repository>@sha256:...".
func digest(ctx context.Context, reference string) (name.Digest, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return name.Digest{}, err
	}
	descriptor, err := remote.Head(ref, remote.WithContext(ctx), remote.WithTransport(transport()))
	if err != nil {
		return name.Digest{}, fmt.Errorf("looking for the image %q: %w", reference, err)
	}
	return ref.Context().Digest(descriptor.Digest.String()), nil
}
