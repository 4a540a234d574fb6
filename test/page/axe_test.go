// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/page/pagetest"
)

// axeVersion is that of axe-core, a program in JavaScript that finds what people with
// disabilities can't use.
const axeVersion = "4.14.1"

// axe returns the text of axe-core. It comes from npm the first time, and then from the cache.
func axe(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("ENTRYPOINTER_CACHE")
	if cache == "" {
		users, err := os.UserCacheDir()
		require.NoError(t, err)
		cache = filepath.Join(users, "entrypointer")
	}
	directory := filepath.Join(cache, "axe-core@"+axeVersion)
	archive := filepath.Join(directory, "axe-core-"+axeVersion+".tgz")
	if _, err := os.Stat(archive); errors.Is(err, os.ErrNotExist) {
		require.NoError(t, os.MkdirAll(directory, 0o755))
		command := exec.CommandContext(t.Context(), "npm", "pack", "--silent", "axe-core@"+axeVersion)
		command.Dir = directory
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s: %s; npm is installed by hack/apt-get.sh npm", command, out)
	}
	file, err := os.Open(archive)
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	for files := tar.NewReader(unzipped); ; {
		entry, err := files.Next()
		require.NoError(t, err, "%s has no package/axe.min.js", archive)
		if entry.Name == "package/axe.min.js" {
			text, err := io.ReadAll(files)
			require.NoError(t, err)
			return string(text)
		}
	}
}

// A violation is what axe-core finds.
type violation struct {
	ID    string   `json:"id"`
	Help  string   `json:"help"`
	Nodes []string `json:"nodes"`
}

// violations returns what axe-core finds on the page of a browser, by all of its rules but
// those that it calls experimental. The numbers of a log's lines are as high as the lines:
// WCAG allows that where the height of other text decides it (2.5.8, Inline), which axe-core
// can't see.
func violations(t *testing.T, b *browser, program string) (found []violation) {
	t.Helper()
	b.run(t, program)
	text, err := b.evaluate(`axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then((r) => JSON.stringify(r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.map((n) => n.html.slice(0, 200)).filter((n) => v.id !== "target-size" || !n.startsWith('<a class="n"'))}))
			.filter((v) => v.nodes.length > 0)))`)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(text), &found))
	return found
}

// TestAxeFindsNoViolation has axe-core check each page in both color schemes.
func TestAxeFindsNoViolation(t *testing.T) {
	at, b, program := serve(t, pagetest.New()), newChromium(t), axe(t)
	for _, scheme := range []string{"light", "dark"} {
		for name, path := range pages {
			b.prefers(t, scheme)
			b.do(t, chromedp.Navigate(at+path), chromedp.WaitVisible(chromedp.CSS("h1")))
			if name == "release" {
				b.do(t, until(`document.querySelector("#logs a.n") !== null`)) // its lines have come
			}
			require.Empty(t, violations(t, b, program), "%s, %s", name, scheme)
		}
	}
}

// TestAxeFindsViolations makes sure that axe-core runs: by text of little contrast, and an
// image without a text.
func TestAxeFindsViolations(t *testing.T) {
	at, b, program := serve(t, pagetest.New()), newChromium(t), axe(t)
	b.prefers(t, "light")
	b.do(t, chromedp.Navigate(at+pages["runs"]), chromedp.WaitVisible(chromedp.CSS("h1")),
		chromedp.Evaluate[chromedp.Void](`document.querySelector("h1").style.color = "#bbb"; document.querySelector("main").append(new Image())`))
	ids := []string{}
	for _, v := range violations(t, b, program) {
		ids = append(ids, v.ID)
	}
	require.Subset(t, ids, []string{"color-contrast", "image-alt"})
}
