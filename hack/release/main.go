// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Program release makes a release of the checked-out commit: images in a registry, and a
// folder with manifests, the Helm chart, archives of the kubectl plugin, software bills of materials,
// provenance and checksums. Two runs for the same commit write the same bytes, but for the
// signatures, which it makes if it gets a key.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A release is what the flags and the checkout say of it.
type release struct {
	version    string        // with the v
	repository string        // the prefix of the images' names
	url        string        // where the files of the folder will be downloaded
	ko, cosign string        // the paths of the programs
	key        string        // as cosign reads it, "" for no signatures
	publicKey  string        // in PEM
	patience   time.Duration // with each run of cosign
	platforms  []platform    // of the plugin
	imagesFor  []string      // the platforms of the images
	folder     string
	images     []image
	chart      string // its name in the registry, with the digest
	source
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a release:", err)
		os.Exit(1)
	}
}

// home is where the project's releases are, if the flag -url says nothing else.
const home = repositoryURL + "/releases/download/"

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	r := release{patience: 3 * time.Minute}
	flags.StringVar(&r.version, "version", "", "the version, such as v0.1.0")
	flags.StringVar(&r.repository, "repository", os.Getenv("KO_DOCKER_REPO"), "the prefix of the images' names, a registry and a path in it")
	flags.StringVar(&r.folder, "folder", "", "the folder to make, which mustn't exist")
	flags.StringVar(&r.url, "url", "", "where the files of the folder will be downloaded; the default is "+home+"VERSION")
	flags.StringVar(&r.ko, "ko", "ko", "the path of ko")
	flags.StringVar(&r.cosign, "cosign", "cosign", "the path of cosign, version 3, which signs")
	flags.StringVar(&r.key, "key", "", "the private key to sign with, a file of cosign generate-key-pair whose password is COSIGN_PASSWORD, or a URI of a key service that cosign knows; without it, the release is unsigned")
	imagePlatforms := flags.String("image-platforms", "linux/amd64,linux/arm64", "the platforms of the images")
	platforms := flags.String("plugin-platforms", strings.Join(pluginPlatforms, ","), "the platforms of the kubectl plugin")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.imagesFor = strings.Split(*imagePlatforms, ",")
	if err := r.check(flags.Args(), *platforms); err != nil {
		return err
	}
	var err error
	if r.source, err = readSource(ctx); err != nil {
		return err
	}
	// The folder gets its name when it is complete.
	if err := os.MkdirAll(filepath.Dir(r.folder), 0o755); err != nil {
		return err
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(r.folder), ".release-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	complete := r.folder
	r.folder = unfinished
	steps := []func(context.Context) error{
		r.checkAPI, r.readKey, r.writeNotes, r.buildImages, r.writeManifests, r.writeChart, r.writePlugins, r.writeProvenance, r.writeChecksums, r.sign,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return err
	}
	return os.Rename(unfinished, complete)
}

// semver is a version that Go modules, OCI tags and Helm accept: v1.2.3 or v1.2.3-rc.1.
var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z]+(\.[0-9a-z]+)*)?$`)

// check checks the flags, and sets those that have a default.
func (r *release) check(rest []string, platforms string) (err error) {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("the argument %q isn't a flag", rest[0])
	case !semver.MatchString(r.version):
		return fmt.Errorf("the version is %q: set -version to one such as v0.1.0 or v0.1.0-rc.1", r.version)
	case len(r.version) > validation.LabelValueMaxLength:
		return fmt.Errorf("the version %s has %d characters, and labels have at most %d", r.version, len(r.version), validation.LabelValueMaxLength)
	case r.repository == "":
		return errors.New("there is no registry for the images: set -repository or KO_DOCKER_REPO")
	case r.folder == "":
		return errors.New("there is no folder to make: set -folder")
	}
	if _, err := os.Lstat(r.folder); err == nil {
		return fmt.Errorf("%s exists: remove it, or set -folder to another one", r.folder)
	}
	if r.folder, err = filepath.Abs(r.folder); err != nil {
		return err
	}
	if r.url == "" {
		r.url = home + r.version
	}
	r.url = strings.TrimSuffix(r.url, "/")
	r.platforms, err = parsePlatforms(platforms)
	return err
}

// write writes a file of the release.
func (r *release) write(name string, content []byte) error {
	file := filepath.Join(r.folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
