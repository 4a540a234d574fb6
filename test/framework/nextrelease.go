// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ThisFlag is a flag of the supervisor.
const ThisFlag = "-grace-period="

// NextFlag is how the next release spells it. Neither release knows the other's.
const NextFlag = "-stopping-time="

// renamedFlags is what the next release spells differently, in each place that spells it.
var renamedFlags = []struct{ file, now, next string }{
	{"pkg/pod/options.go", `c.flag = "-" + o.Name + "="`, `if c.flag = "-" + o.Name + "="; c.flag == "` + ThisFlag + `" { c.flag = "` + NextFlag + `" }`},
	{"internal/supervisor/ending/ending.go", `"grace-period", "DURATION"`, `"stopping-time", "DURATION"`},
}

var copierImage = regexp.MustCompile(`-copier-image\n +- (\S+)`)

// NextRelease builds this checkout with the flag renamed, and writes the manifest of its
// Deployment into a directory. It returns the file, and the image of the init containers that
// this release adds.
func NextRelease(ctx context.Context, directory string) (file, copier string, err error) {
	top, err := RepositoryRoot()
	if err != nil {
		return "", "", err
	}
	replace := map[string]string{}
	for i, flag := range renamedFlags {
		source, err := os.ReadFile(filepath.Join(top, flag.file))
		if err != nil {
			return "", "", fmt.Errorf("making the next release: %w", err)
		}
		if count := strings.Count(string(source), flag.now); count != 1 {
			return "", "", fmt.Errorf("making the next release: %s has %q %d times, not once", flag.file, flag.now, count)
		}
		path := filepath.Join(directory, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(path, []byte(strings.Replace(string(source), flag.now, flag.next, 1)), 0o600); err != nil {
			return "", "", fmt.Errorf("making the next release: %w", err)
		}
		replace[filepath.Join(top, flag.file)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", "", err
	}
	overlayFile := filepath.Join(directory, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return "", "", fmt.Errorf("making the next release: %w", err)
	}
	manifest, err := Run(ctx, "env", "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlayFile, "ko", "resolve", "-f", "config/webhook/500-injector.yaml")
	if err != nil {
		return "", "", err
	}
	image := copierImage.FindSubmatch(manifest)
	if image == nil {
		return "", "", fmt.Errorf("making the next release: its manifest names no image of the copier: %s", manifest)
	}
	// Long enough for both releases to serve beside each other.
	const ready, longer = "\n  minReadySeconds: 3\n", "\n  minReadySeconds: 5\n"
	if !strings.Contains(string(manifest), ready) {
		return "", "", fmt.Errorf("making the next release: its manifest lacks %q: %s", ready, manifest)
	}
	file = filepath.Join(directory, "injector.yaml")
	return file, string(image[1]), os.WriteFile(file, []byte(strings.Replace(string(manifest), ready, longer, 1)), 0o600)
}
