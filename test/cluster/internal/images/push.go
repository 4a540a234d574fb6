// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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
	"strings"

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
		if err := image.pushAll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pushAll pushes an image under each of its tags.
func (i Image) pushAll(ctx context.Context) error {
	tar, err := i.layer()
	if err != nil {
		return fmt.Errorf("making the image %q: %w", i.Repository, err)
	}
	var below string
	if i.Base != "" {
		base, err := digest(ctx, i.Base)
		if err != nil {
			return fmt.Errorf("making the image %q: %w", i.Repository, err)
		}
		below = base.String()
	}
	input, err := i.input(below, bytes.NewReader(tar))
	if err != nil {
		return fmt.Errorf("making the image %q: %w", i.Repository, err)
	}
	for _, tag := range i.Tags {
		err := i.push(ctx, tag, input, func() (remote.Taggable, error) {
			base, err := fetch(ctx, below)
			if err != nil {
				return nil, err
			}
			if len(i.Architectures) > 0 {
				return i.makeIndex(base, input, layers(tar)...)
			}
			return i.make(base, runtime.GOARCH, input, layers(tar)...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// push pushes what is made under one tag, unless the registry has an image of
// the same input there.
func (i Image) push(ctx context.Context, tag, input string, made func() (remote.Taggable, error)) error {
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
		image, err := made()
		if err != nil {
			return err
		}
		return remote.Push(reference, image, options...)
	})
}

// fetch returns an image that the registry has. Its layers needn't be
// downloaded to be pushed again: the registry knows them. Without a reference,
// it is the empty image.
func fetch(ctx context.Context, reference string) (v1.Image, error) {
	if reference == "" {
		return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), nil
	}
	digest, err := name.NewDigest(reference)
	if err != nil {
		return nil, err
	}
	return remote.Image(digest, remote.WithContext(ctx), remote.WithTransport(transport()))
}

// layers are the layer that is such an archive, or none if nothing is in it.
func layers(tar []byte) []v1.Layer {
	if len(tar) == 0 {
		return nil
	}
	// Reading from memory can't fail.
	layer, _ := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(tar)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestSpeed))
	return []v1.Layer{layer}
}

// makeIndex makes an image for each of the architectures.
func (i Image) makeIndex(base v1.Image, input string, layers ...v1.Layer) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range i.Architectures {
		image, err := i.make(base, architecture, input, layers...)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return index, nil
}

// make puts layers on an image. It names a platform: without one, Tekton wouldn't run it.
func (i Image) make(base v1.Image, architecture, input string, layers ...v1.Layer) (v1.Image, error) {
	image, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	config.Config = i.config()
	config.Config.Labels = map[string]string{inputLabel: input}
	return mutate.ConfigFile(image, config)
}

func (i Image) config() v1.Config {
	return v1.Config{
		Env:        append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, i.Env...),
		StopSignal: i.StopSignal,
		Entrypoint: i.Entrypoint,
		Cmd:        i.Cmd,
		User:       i.User,
		WorkingDir: "/",
	}
}

// input is a hash of all that the image is made of: its configuration, the
// image below, and what describes its layer.
func (i Image) input(below string, layer io.Reader) (string, error) {
	config, err := json.Marshal(i.config())
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	hash.Write(config)
	hash.Write([]byte(below))
	hash.Write([]byte(strings.Join(i.Architectures, ",")))
	if _, err := io.Copy(hash, layer); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// layer is the image's files in a tar archive that is the same every time;
// nothing if it has no files.
func (i Image) layer() ([]byte, error) {
	if len(i.Files) == 0 {
		return nil, nil
	}
	var buffer bytes.Buffer
	archive := newArchive(&buffer)
	for _, file := range i.Files {
		if err := archive.addFile(file); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// archive is a tar archive in which no file is there twice.
type archive struct {
	*tar.Writer
	present map[string]bool // by path
}

func newArchive(w io.Writer) archive {
	return archive{tar.NewWriter(w), map[string]bool{".": true}}
}

// addFile adds a file, after the directories that lead to it.
func (a archive) addFile(file File) error {
	if err := a.addParents(file.Path); err != nil {
		return err
	}
	a.present[file.Path] = true
	return file.add(a.Writer)
}

func (a archive) addParents(file string) error {
	if dir := path.Dir(file); !a.present[dir] {
		return a.addFile(File{Path: dir, Mode: 0o755})
	}
	return nil
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
