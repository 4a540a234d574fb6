// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// testRepository is where an image of a test is pushed: next to those of ko.
func testRepository(t *testing.T, name string) string {
	t.Helper()
	repository := strings.TrimSuffix(os.Getenv("KO_DOCKER_REPO"), "/")
	if repository == "ko.local" || repository == "kind.local" {
		t.Skipf("KO_DOCKER_REPO=%s is no registry, so there is nothing to look up", repository)
	}
	return repository + "/e2e-" + name
}

// nodePlatform is what the cluster's images have to be for.
func nodePlatform(t *testing.T) *v1.Platform {
	t.Helper()
	info := aWorker(t).Status.NodeInfo
	return &v1.Platform{OS: info.OperatingSystem, Architecture: info.Architecture}
}

// pushed is an image that is busybox but for what it runs.
func pushed(t *testing.T, name string, entrypoint, cmd []string) string {
	t.Helper()
	return pushedTo(t, testRepository(t, name), changedBusybox(t, runs(entrypoint, cmd)))
}

func pushedTo(t *testing.T, repository string, changed v1.Image, options ...crane.Option) string {
	t.Helper()
	require.NoError(t, crane.Push(changed, repository+":latest", append(options, crane.WithContext(t.Context()))...))
	digest, err := changed.Digest()
	require.NoError(t, err)
	return repository + "@" + digest.String()
}

// pushedIndex is an index of such images, one for each platform.
func pushedIndex(t *testing.T, repository string, argvs map[string][]string) string {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for words, argv := range argvs {
		platform, err := v1.ParsePlatform(words)
		require.NoError(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        changedBusybox(t, runs(argv, nil)),
			Descriptor: v1.Descriptor{Platform: platform},
		})
	}
	tag, err := name.NewTag(testRepository(t, repository) + ":latest")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(tag, index, remote.WithContext(t.Context())))
	return tag.Name()
}

// runs is a change of what an image runs.
func runs(entrypoint, cmd []string) func(*v1.Config) {
	return func(config *v1.Config) { config.Entrypoint, config.Cmd = entrypoint, cmd }
}

func changedBusybox(t *testing.T, change func(*v1.Config)) v1.Image {
	t.Helper()
	base, err := crane.Pull(image(t, "busybox:1.37"), crane.WithContext(t.Context()), crane.WithPlatform(nodePlatform(t)))
	require.NoError(t, err)
	file, err := base.ConfigFile()
	require.NoError(t, err)
	file = file.DeepCopy()
	change(&file.Config)
	changed, err := mutate.ConfigFile(base, file)
	require.NoError(t, err)
	return changed
}
