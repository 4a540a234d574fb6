// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestTheVersionIsThatOfTheLinkOrElseOfTheModule(t *testing.T) {
	module := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}}
	}
	for _, test := range []struct {
		linked string
		build  *debug.BuildInfo
		want   string
	}{
		{"v1.2.3-abcdef0", module("v0.0.0-20261122101112-abcdef012345"), "v1.2.3-abcdef0"},
		{"", module("v0.0.0-20261122101112-abcdef012345"), "v0.0.0-20261122101112-abcdef012345"},
		{"", module("(devel)"), "devel"},
		{"", module(""), "devel"},
		{"", nil, "devel"},
	} {
		require.Equal(t, test.want, of(test.linked, test.build))
	}
}

// koBuilds returns the ldflags of each build in .ko.yaml, by its main package. ko fills
// the template with what it knows of the checkout and of the environment.
func koBuilds(t *testing.T, checkout map[string]any, environment map[string]string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../.ko.yaml")
	require.NoError(t, err)
	var file struct {
		Builds []struct {
			Main    string
			Ldflags []string
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	flags := map[string]string{}
	for _, build := range file.Builds {
		filled, err := template.New(build.Main).Option("missingkey=error").Parse(strings.Join(build.Ldflags, " "))
		require.NoError(t, err)
		var result strings.Builder
		require.NoError(t, filled.Execute(&result, map[string]any{"Git": checkout, "Env": environment}))
		flags[build.Main] = strings.TrimSpace(result.String())
	}
	return flags
}

// The linker says nothing of a variable that doesn't exist.
func TestAProgramThatKoLinksKnowsItsVersion(t *testing.T) {
	builds := koBuilds(t, map[string]any{"Tag": "v1.2.3", "ShortCommit": "abcdef0", "IsDirty": true}, nil)
	mains, err := filepath.Glob("../../cmd/*/main.go")
	require.NoError(t, err)
	more, err := filepath.Glob("../../cmd/*/*/main.go")
	require.NoError(t, err)
	for _, main := range append(mains, more...) {
		main = "./" + strings.TrimPrefix(filepath.Dir(main), "../../")
		if main == "./cmd/kubectl-entrypointer" {
			continue // runs outside of the cluster; go build and go install stamp it
		}
		require.Contains(t, builds, main)
	}
	for _, test := range []struct{ main, build, program string }{
		{"./cmd/injector", "./testdata/program", "program"},
		{"./cmd/logs", "./testdata/program", "program"},
		{"./cmd/entrypoint", "../../cmd/entrypoint", "entrypoint"},
		{"./cmd/withlogs/entrypoint", "../../cmd/withlogs/entrypoint", "entrypoint"},
	} {
		path := filepath.Join(t.TempDir(), "program")
		build := exec.CommandContext(t.Context(), "go", "build", "-ldflags="+builds[test.main], "-o", path, test.build)
		build.Stderr = os.Stderr
		require.NoError(t, build.Run())
		said, err := exec.CommandContext(t.Context(), path, "-version").Output()
		require.NoError(t, err)
		require.Equal(t, []string{test.program, "v1.2.3-abcdef0+dirty"}, strings.Fields(string(said))[:2], test.main)
	}
	require.Equal(t, builds["./cmd/entrypoint"], builds["./cmd/copier"], "a copier is its own entrypoint")
	require.Equal(t, builds["./cmd/entrypoint"], builds["./cmd/withlogs/copier"])
}

func TestWithoutACheckoutNoVersionIsLinked(t *testing.T) {
	for main, flags := range koBuilds(t, map[string]any{"Tag": "", "ShortCommit": "", "IsDirty": false}, nil) {
		require.Equal(t, "-s -w", flags, main)
	}
	clean := koBuilds(t, map[string]any{"Tag": "v1.2.3", "ShortCommit": "abcdef0", "IsDirty": false}, nil)
	require.True(t, strings.HasSuffix(clean["./cmd/injector"], "=v1.2.3-abcdef0"), clean["./cmd/injector"])
}

func TestAReleaseIsLinkedWithItsOwnVersion(t *testing.T) {
	checkout := map[string]any{"Tag": "v1.2.2", "ShortCommit": "abcdef0", "IsDirty": false}
	for main, flags := range koBuilds(t, checkout, map[string]string{"ENTRYPOINTER_VERSION": "v1.2.3"}) {
		require.True(t, strings.HasSuffix(flags, "=v1.2.3"), "%s: %s", main, flags)
		require.NotContains(t, flags, "abcdef0", main)
	}
}

func TestTheOlderOfTwoVersionsIsKnownByTheirTags(t *testing.T) {
	for _, test := range []struct {
		a, b         string
		older, known bool
	}{
		{"v1.2.3", "v1.10.0", true, true},
		{"v1.2.3-rc.1", "v1.2.3", true, true},
		{"v1.2.3-rc.2", "v1.2.3-rc.10", true, true},
		{"v1.2.3-abcdef0", "v1.2.4-1234567+dirty", true, true},
		{"v1.2.4-0.20261122101112-abcdef012345", "v1.2.4", true, true},
		{"v1.2.3", "v1.2.3", false, false},
		{"v1.2.3-abcdef0", "v1.2.3-1234567", false, false},
		{"v1.2.3-abcdef0", "v1.2.3", false, false},
		{"v0.0.0-20261122101112-abcdef012345", "v1.2.3", false, false},
		{"v0.0.0-abcdef0", "v1.2.3", false, false},
		{"v0.0.0-rc.1", "v0.0.0-rc.2", true, true},
		{"devel", "v1.2.3", false, false},
	} {
		older, known := Older(test.a, test.b)
		require.Equal(t, [2]bool{test.older, test.known}, [2]bool{older, known}, "%s %s", test.a, test.b)
		older, known = Older(test.b, test.a)
		require.Equal(t, [2]bool{test.known && !test.older, test.known}, [2]bool{older, known}, "%s %s", test.b, test.a)
	}
}

func TestACommitIsNoRelease(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.2.3": true, "v1.2.3-rc.1": true,
		"devel": false, "v1.2.3-abcdef0": false, "v1.2.3+dirty": false, "v1.2.3-abcdef0+dirty": false, "v0.0.0-20261122101112-abcdef012345": false,
	} {
		require.Equal(t, want, IsRelease(version), version)
		require.Equal(t, map[bool]string{true: "kubectl apply -f logs.yaml", false: "ko apply -f config/logs"}[want], Applies(version, "logs"), version)
	}
}

func TestVersionsOfTheSameCommitAreTheSame(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"v1.2.3-abcdef0", "v1.2.3-abcdef0", true},
		{"v1.2.3-abcdef0", "v1.2.3", true},
		{"v1.2.3-abcdef0", "v0.0.0-20261122101112-abcdef012345", true},
		{"v1.2.3-abcdef0+dirty", "v1.2.3-abcdef0", true},
		{"v1.2.3-abcdef0", "devel", true},
		{"v1.2.3-rc.1", "v1.2.3-rc.1", true},
		{"v1.2.3-abcdef0", "v1.2.4", false},
		{"v1.2.3-abcdef0", "v1.2.3-1234567", false},
		{"v1.2.3-rc.1", "v1.2.3", false},
		{"v1.2.3-rc.1-abcdef0", "v1.2.3-rc.1", true},
	} {
		require.Equal(t, test.want, Same(test.a, test.b), "%s %s", test.a, test.b)
		require.Equal(t, test.want, Same(test.b, test.a), "%s %s", test.b, test.a)
	}
}
