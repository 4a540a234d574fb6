// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

const koScheme = "ko://"

// Image is the reference of an image for a test that pulls it, or has Tekton look it up:
// neither knows the mirror of Docker Hub that the nodes have. An import path after ko://
// is built and pushed, and references of other registries stay as they are.
func Image(ctx context.Context, reference string) (string, error) {
	if path, ok := strings.CutPrefix(reference, koScheme); ok {
		return built.image(ctx, path)
	}
	return fromStandIn(reference, os.Getenv("E2E_IMAGE_REGISTRY")), nil
}

// fromStandIn lets registry serve what would come from Docker Hub: "busybox:1.37"
// becomes "registry/library/busybox:1.37". A reference names a registry if what
// is before its first slash has a dot or a colon, or is localhost
// (github.com/distribution/reference).
func fromStandIn(reference, registry string) string {
	if registry == "" {
		return reference
	}
	first, _, slash := strings.Cut(reference, "/")
	switch {
	case !slash:
		return registry + "/library/" + reference
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return reference
	default:
		return registry + "/" + reference
	}
}

// built remembers what ko built: an image takes seconds, and every test wants one.
var built = koImages{references: map[string]string{}}

type koImages struct {
	mu         sync.Mutex
	references map[string]string // by import path
}

func (k *koImages) image(ctx context.Context, path string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if reference, ok := k.references[path]; ok {
		return reference, nil
	}
	out, err := Run(ctx, "ko", "build", path)
	if err != nil {
		return "", err
	}
	reference := strings.TrimSpace(string(out))
	k.references[path] = reference
	return reference, nil
}

// Run runs a command in the top directory of this repository and returns its
// stdout. The error has what it wrote to stderr.
func Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	top, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = top
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("running %q: %w: %s", command.Args, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
