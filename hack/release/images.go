// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// An image is that of a program.
type image struct {
	program   string // its import path
	name      string // the last element of the image's name
	reference string // with the tag and the digest
}

// programs finds the import paths of the programs that run in images.
var programs = regexp.MustCompile(`ko://(\S+)`)

// buildImages builds the images that the manifests name, pushes them, and writes their
// software bills of materials.
func (r *release) buildImages(ctx context.Context) error {
	for _, part := range parts {
		text, err := manifest(part)
		if err != nil {
			return err
		}
		for _, found := range programs.FindAllStringSubmatch(text, -1) {
			r.images = append(r.images, image{program: found[1], name: imageName(found[1])})
		}
	}
	slices.SortFunc(r.images, func(a, b image) int { return strings.Compare(a.name, b.name) })
	r.images = slices.Compact(r.images)
	for i := range r.images {
		if err := r.buildImage(ctx, &r.images[i]); err != nil {
			return fmt.Errorf("building the image of %s: %w", r.images[i].program, err)
		}
	}
	return nil
}

// imageName returns the name of a program's image: injector, or copier-with-logs for
// cmd/withlogs/copier.
func imageName(program string) string {
	if folder := path.Base(path.Dir(program)); folder == "withlogs" {
		return path.Base(program) + "-with-logs"
	}
	return path.Base(program)
}

func (r *release) buildImage(ctx context.Context, i *image) error {
	sbom := filepath.Join(r.folder, "sbom", i.name)
	if err := os.MkdirAll(sbom, 0o755); err != nil {
		return err
	}
	environment := append(buildEnvironment(), "KO_DOCKER_REPO="+r.repository+"/"+i.name,
		"ENTRYPOINTER_VERSION="+r.version, "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.time.Unix(), 10))
	printed, err := output(ctx, environment, r.ko, "build", i.program, "--bare",
		"--platform", strings.Join(r.imagesFor, ","), "--tags", r.version, "--sbom-dir", sbom)
	if err != nil {
		return err
	}
	i.reference = printed
	return checkPlatforms(ctx, i.reference, r.imagesFor)
}

// checkPlatforms returns an error unless an image is there for all platforms. ko builds
// for those that the base image has, and leaves the others out.
func checkPlatforms(ctx context.Context, reference string, platforms []string) error {
	named, err := name.NewDigest(reference)
	if err != nil {
		return fmt.Errorf("ko has printed no image with a digest: %w", err)
	}
	pushed, err := remote.Get(named, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return err
	}
	has, err := platformsOf(pushed)
	if err != nil {
		return err
	}
	for _, platform := range platforms {
		if !slices.Contains(has, platform) {
			return fmt.Errorf("%s has images for %s, and none for %s: the base image, KO_DEFAULTBASEIMAGE, must have one", reference, strings.Join(has, ", "), platform)
		}
	}
	return nil
}

// platformsOf returns the platforms of an image, or of the images of an index.
func platformsOf(pushed *remote.Descriptor) (list []string, err error) {
	if !pushed.MediaType.IsIndex() {
		image, err := pushed.Image()
		if err != nil {
			return nil, err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		return []string{config.Platform().String()}, nil
	}
	index, err := pushed.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifests, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, of := range manifests.Manifests {
		if of.Platform != nil {
			list = append(list, of.Platform.String())
		}
	}
	return list, nil
}

// buildEnvironment is the environment of whatever compiles Go.
func buildEnvironment() []string {
	return []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false -trimpath -gcflags=all=-dwarf=false", "GOWORK=off"}
}
