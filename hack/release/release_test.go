// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/api"
)

func TestFlagsThatMakeNoReleaseAreRefused(t *testing.T) {
	existing := t.TempDir()
	for name, test := range map[string]struct {
		flags []string
		want  string
	}{
		"no version":           {[]string{"-repository", "r", "-folder", "f"}, `the version is ""`},
		"a version without v":  {[]string{"-version", "1.2.3"}, `the version is "1.2.3"`},
		"half a version":       {[]string{"-version", "v1.2"}, `the version is "v1.2"`},
		"a leading zero":       {[]string{"-version", "v1.02.3"}, `the version is "v1.02.3"`},
		"build metadata":       {[]string{"-version", "v1.2.3+a"}, `the version is "v1.2.3+a"`}, // no tag of an image
		"no value of a label":  {[]string{"-version", "v1.2.3-" + strings.Repeat("a", 57)}, "has 64 characters, and labels have at most 63"},
		"no repository":        {[]string{"-version", "v1.2.3", "-folder", "f"}, "no registry"},
		"no folder":            {[]string{"-version", "v1.2.3", "-repository", "r"}, "no folder"},
		"an existing folder":   {[]string{"-version", "v1.2.3", "-repository", "r", "-folder", existing}, "exists: remove it"},
		"an unknown platform":  {[]string{"-version", "v1.2.3", "-repository", "r", "-folder", "f", "-plugin-platforms", "linux"}, `the platform "linux"`},
		"an argument too many": {[]string{"-version", "v1.2.3", "now"}, `the argument "now"`},
	} {
		t.Setenv("KO_DOCKER_REPO", "")
		require.ErrorContains(t, run(t.Context(), test.flags), test.want, name)
	}
}

func TestAReleaseIsMadeOnlyOfWhatIsCommitted(t *testing.T) {
	checkout := t.TempDir()
	git := func(args ...string) {
		command := exec.CommandContext(t.Context(), "git", append([]string{"-C", checkout, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		command.Env = append(os.Environ(), "GIT_COMMITTER_DATE=1700000000 +0000")
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "first")
	t.Chdir(checkout)
	s, err := readSource(t.Context())
	require.NoError(t, err)
	require.Equal(t, time.Unix(1700000000, 0).UTC(), s.time)
	require.Len(t, s.commit, 40)
	require.NoError(t, os.WriteFile("new.go", nil, 0o600))
	_, err = readSource(t.Context())
	require.ErrorContains(t, err, "?? new.go")
}

func TestTheNotesAreTheSectionOfTheVersion(t *testing.T) {
	const changelog = "# Changelog\n\n## Unreleased\n\n- later\n\n## v0.2.0 - 2026-12-24\n\n### For operators\n\n- new\n- mended\n\n## v0.1.0\n\n- old\n"
	for version, want := range map[string]string{
		"v0.2.0":      "# entrypointer v0.2.0\n\n### For operators\n\n- new\n- mended\n",
		"v0.1.0":      "# entrypointer v0.1.0\n\n- old\n",
		"v0.3.0-rc.1": "# entrypointer v0.3.0-rc.1\n\n- later\n",
	} {
		got, err := notesOf(changelog, version)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, version := range []string{"v0.3.0", "v0.2", "v0.2.0-rc"} {
		_, err := notesOf(strings.Replace(changelog, unreleased, "Later", 1), version)
		require.ErrorContains(t, err, `no section "## `+version+`"`)
	}
}

func TestTheChangelogHasNotesForTheNextRelease(t *testing.T) {
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	notes, err := notesOf(string(changelog), "v0.0.0-rc.1")
	require.NoError(t, err)
	require.NotContains(t, notes, "\n## ")
	for _, group := range regexp.MustCompile(`(?m)^### .+$`).FindAllString(notes, -1) {
		require.Regexp(t, regexp.QuoteMeta(group)+`\n\n- `, notes, "a group without a line")
	}
}

func TestAReleaseLeavesItsAPIForTheNextOneToBeComparedWith(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("test/api/released", 0o700))
	write := func(name, text string) { require.NoError(t, os.WriteFile("test/api/"+name, []byte(text), 0o600)) }
	for _, pkg := range api.Packages {
		write(pkg+".txt", "func New()\n")
		write("released/"+pkg+".txt", "func New()\n")
	}
	final, candidate := &release{version: "v0.2.0"}, &release{version: "v0.2.0-rc.1"}
	require.NoError(t, final.checkAPI(t.Context()))
	write("pod.txt", "func New()\nfunc Newer()\n")
	require.ErrorContains(t, final.checkAPI(t.Context()), "test/api/released/pod.txt isn't what this commit exports: run")
	require.NoError(t, candidate.checkAPI(t.Context()))
	write("released/pod.txt", "func New()\nfunc Newer()\n")
	require.NoError(t, final.checkAPI(t.Context()))
}

func TestArchivesAreTheSameEveryTimeAndHaveWhatKrewWants(t *testing.T) {
	r := &release{version: "v0.1.0", source: source{time: time.Unix(1700000000, 0).UTC()}}
	files := []packed{{"kubectl-entrypointer", 0o755, []byte("program")}, {"LICENSE", 0o644, []byte("text")}}
	for _, p := range []platform{{"linux", "amd64"}, {"windows", "arm64"}} {
		first, err := r.pack(p, files)
		require.NoError(t, err)
		second, err := r.pack(p, files)
		require.NoError(t, err)
		require.Equal(t, first, second)

		unpacked := t.TempDir()
		if p.os == "windows" {
			archive, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
			require.NoError(t, err)
			require.Len(t, archive.File, 2)
			require.Equal(t, os.FileMode(0o755), archive.File[0].Mode())
			continue
		}
		compressed, err := gzip.NewReader(bytes.NewReader(first))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, compressed)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(unpacked, "a.tar.gz"), first, 0o600))
		out, err := exec.CommandContext(t.Context(), "tar", "-C", unpacked, "-xzf", filepath.Join(unpacked, "a.tar.gz")).CombinedOutput()
		require.NoError(t, err, string(out))
		about, err := os.Stat(filepath.Join(unpacked, "kubectl-entrypointer"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), about.Mode())
		require.Equal(t, r.time, about.ModTime().UTC())
	}
}

func TestKrewFindsTheArchiveOfEachPlatform(t *testing.T) {
	r := &release{version: "v0.1.0"}
	manifest := r.krew()
	manifest.add(platform{"windows", "amd64"}, "https://example.org/a.zip", []byte("archive"))
	text, err := yaml.Marshal(manifest)
	require.NoError(t, err)
	require.Contains(t, string(text), `
  platforms:
  - bin: kubectl-entrypointer.exe
    selector:
      matchLabels:
        arch: amd64
        os: windows
    sha256: 0eb3e36bfb24dcd9bb1d1bece1531216b59539a8fde17ee80224af0653c92aa3
    uri: https://example.org/a.zip
`)
}

func TestTheChecksumsAreThoseThatSha256sumComputes(t *testing.T) {
	r := &release{version: "v0.1.0", folder: t.TempDir()}
	require.NoError(t, r.write("a.yaml", []byte("a")))
	require.NoError(t, r.write("sbom/b.json", []byte("b")))
	require.NoError(t, r.writeChecksums(t.Context()))
	check := exec.CommandContext(t.Context(), "sha256sum", "--strict", "-c", checksums)
	check.Dir = r.folder
	out, err := check.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "a.yaml: OK\nsbom/b.json: OK\n", string(out))
}

// The manifests of a release differ from those of config/ only in the images, and by the label
// of the version.
func TestManifestsAreThoseOfTheCheckoutWithTheImagesOfTheRelease(t *testing.T) {
	r := &release{version: "v0.1.0", folder: t.TempDir()}
	for _, name := range []string{"injector", "logs", "copier", "entrypoint", "withlogs/copier", "withlogs/entrypoint"} {
		program := "github.com/entrypointer/entrypointer/cmd/" + name
		r.images = append(r.images, image{program: program, reference: "example.org/" + imageName(program) + "@sha256:0a"})
	}
	require.NoError(t, r.writeManifests(t.Context()))
	for _, part := range parts {
		text, err := os.ReadFile(filepath.Join(r.folder, part+".yaml"))
		require.NoError(t, err)
		want, err := manifest(part)
		require.NoError(t, err)
		for _, i := range r.images {
			want = strings.ReplaceAll(want, "ko://"+i.program+"\n", i.reference+"\n")
		}
		label := regexp.MustCompile(`(?m)^ +app\.kubernetes\.io/version: v0\.1\.0\n`)
		require.Len(t, label.FindAll(text, -1), strings.Count(want, "\n  labels:\n")+strings.Count(want, "\nkind: Deployment\n"))
		require.Equal(t, "# entrypointer v0.1.0: "+part+"\n"+want, label.ReplaceAllString(string(text), ""))
	}
	text, err := os.ReadFile(filepath.Join(r.folder, "install.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "entrypointer-copier-with-logs-image: example.org/copier-with-logs@sha256:0a\n")
	documents := strings.Split(string(text), "\n---\n")
	for _, document := range documents {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		require.NotEmpty(t, object["kind"], document)
	}

	r.images = r.images[1:]
	require.ErrorContains(t, r.writeManifests(t.Context()), `the program "github.com/entrypointer/entrypointer/cmd/injector", which was not built`)
}

func TestAnImageWithoutAPlatformIsAnErrorThatNamesTheBaseImage(t *testing.T) {
	registry := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer registry.Close()
	config := &v1.ConfigFile{OS: "linux", Architecture: "amd64"}
	one, err := mutate.ConfigFile(empty.Image, config)
	require.NoError(t, err)
	both := v1.ImageIndex(empty.Index)
	for _, architecture := range []string{"amd64", "arm64"} {
		both = mutate.AppendManifests(both, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}})
	}
	push := func(image remote.Taggable, digest v1.Hash, err error) (reference string) {
		require.NoError(t, err)
		tag, err := name.NewTag(strings.TrimPrefix(registry.URL, "http://") + "/e/injector:v0.1.0")
		require.NoError(t, err)
		require.NoError(t, remote.Push(tag, image))
		return tag.String() + "@" + digest.String()
	}
	oneDigest, err := one.Digest()
	single := push(one, oneDigest, err)
	bothDigest, err := both.Digest()
	index := push(both, bothDigest, err)
	require.NoError(t, checkPlatforms(t.Context(), single, []string{"linux/amd64"}))
	require.NoError(t, checkPlatforms(t.Context(), index, []string{"linux/amd64", "linux/arm64"}))
	require.ErrorContains(t, checkPlatforms(t.Context(), single, []string{"linux/amd64", "linux/arm64"}), "has images for linux/amd64, and none for linux/arm64: the base image")
	require.ErrorContains(t, checkPlatforms(t.Context(), index, []string{"linux/s390x"}), "has images for linux/amd64, linux/arm64, and none for linux/s390x")
	require.Error(t, checkPlatforms(t.Context(), "Published nothing", nil))
}

func TestTheChartIsPushedAsHelmPullsIt(t *testing.T) {
	registry := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer registry.Close()
	push := func() (r *release) {
		r = &release{version: "v0.1.0-rc.1", repository: strings.TrimPrefix(registry.URL, "http://") + "/e", folder: t.TempDir(), source: source{time: time.Unix(1700000000, 0)}}
		for _, name := range []string{"injector", "logs", "copier", "entrypoint", "withlogs/copier", "withlogs/entrypoint"} {
			program := "github.com/entrypointer/entrypointer/cmd/" + name
			r.images = append(r.images, image{program: program, reference: r.repository + "/" + imageName(program) + "@sha256:0a"})
		}
		require.NoError(t, r.writeChart(t.Context()))
		return r
	}
	r := push()
	require.Equal(t, r.chart, push().chart, "the same every time")
	require.Regexp(t, `/e/charts/entrypointer:0\.1\.0-rc\.1@sha256:[0-9a-f]{64}$`, r.chart)

	named, err := name.NewDigest(r.chart)
	require.NoError(t, err)
	got, err := remote.Get(named)
	require.NoError(t, err)
	var manifest v1.Manifest
	require.NoError(t, json.Unmarshal(got.Manifest, &manifest))
	require.Equal(t, "application/vnd.cncf.helm.config.v1+json", string(manifest.Config.MediaType))
	require.Equal(t, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", string(manifest.Layers[0].MediaType))
	layer, err := remote.Layer(named.Context().Digest(manifest.Layers[0].Digest.String()))
	require.NoError(t, err)
	content, err := layer.Compressed()
	require.NoError(t, err)
	pushed, err := io.ReadAll(content)
	require.NoError(t, err)
	written, err := os.ReadFile(filepath.Join(r.folder, "entrypointer-0.1.0-rc.1.tgz"))
	require.NoError(t, err)
	require.Equal(t, written, pushed)
	unpacked, err := exec.CommandContext(t.Context(), "tar", "-xOzf", filepath.Join(r.folder, "entrypointer-0.1.0-rc.1.tgz"), "entrypointer/Chart.yaml", "entrypointer/files/webhook/500-injector.yaml").CombinedOutput()
	require.NoError(t, err, string(unpacked))
	require.Contains(t, string(unpacked), "\nappVersion: v0.1.0-rc.1\n")
	require.Contains(t, string(unpacked), "image: "+r.repository+"/injector@sha256:0a\n")
}

func TestProvenanceNamesFilesImagesAndCommit(t *testing.T) {
	r := &release{version: "v0.1.0", repository: "example.org/e", folder: t.TempDir(), source: source{commit: "c0ffee"}}
	r.images = []image{{reference: "example.org/e/injector:v0.1.0@sha256:" + strings.Repeat("0a", 32)}}
	r.chart = "example.org/e/charts/entrypointer:0.1.0@sha256:" + strings.Repeat("0b", 32)
	require.NoError(t, r.write("webhook.yaml", []byte("a")))
	require.NoError(t, r.writeProvenance(t.Context()))
	text, err := os.ReadFile(filepath.Join(r.folder, "provenance.json"))
	require.NoError(t, err)
	var s statement
	require.NoError(t, yaml.UnmarshalStrict(text, &s))
	require.Equal(t, []artifact{
		{Name: "webhook.yaml", Digest: map[string]string{"sha256": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"}},
		{Name: "example.org/e/charts/entrypointer:0.1.0", Digest: map[string]string{"sha256": strings.Repeat("0b", 32)}},
		{Name: "example.org/e/injector:v0.1.0", Digest: map[string]string{"sha256": strings.Repeat("0a", 32)}},
	}, s.Subject)
	require.Equal(t, "c0ffee", s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"])
}
