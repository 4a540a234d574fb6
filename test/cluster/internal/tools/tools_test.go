// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"archive/zip"
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// hello is a module with one program, which prints a text; and that program.
func hello(t *testing.T, l layout.Layout, text string) (Module, Group) {
	t.Helper()
	dir := t.TempDir()
	const gomod = "module example.test/m\n\ngo 1.26\n"
	write(t, filepath.Join(dir, "go.mod"), gomod)
	write(t, filepath.Join(dir, "go.sum"), "")
	write(t, filepath.Join(dir, "hello", "main.go"), "package main\n\nfunc main() { println("+text+") }\n")
	m, err := Open(l, dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, l.Source("programs.mod"), gomod)
	write(t, l.Temporary("there"), "")
	return m, Group{Name: "group", OnPath: true, Programs: []Program{{Package: "example.test/m/hello", Links: []string{"hi"}}}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestAGroupIsBuiltOnceForEachSource(t *testing.T) {
	l := layout.Layout{Cache: t.TempDir()}
	dirs := map[string]time.Time{}
	for _, text := range []string{`"a"`, `"a"`, `"b"`, `"a"`} {
		m, group := hello(t, l, text)
		dir, err := group.Build(t.Context(), l, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		built, err := os.Stat(filepath.Join(dir, "hello"))
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := dirs[dir]; ok && !before.Equal(built.ModTime()) {
			t.Errorf("%s: built again", text)
		}
		dirs[dir] = built.ModTime()
		for _, name := range []string{"hello", "hi"} {
			if linked, err := filepath.EvalSymlinks(l.Bin(name)); err != nil || linked != filepath.Join(dir, "hello") {
				t.Errorf("%s: linked is %q, %v", name, linked, err)
			}
		}
	}
	if len(dirs) != 2 {
		t.Errorf("built: %d directories for 2 sources", len(dirs))
	}
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	l := layout.Layout{Cache: t.TempDir()}
	m, group := hello(t, l, "broken")
	_, err := group.Build(t.Context(), l, m, nil)
	if err == nil || !strings.Contains(err.Error(), "the last lines of") || !strings.Contains(err.Error(), "undefined: broken") {
		t.Errorf("Build: got %v, want an error with the log's end", err)
	}
	if left, _ := os.ReadDir(l.Tools()); len(left) != 0 {
		t.Errorf("tools: %v is left", left)
	}
}

func TestOpenSaysWhereToBe(t *testing.T) {
	if _, err := Open(layout.Layout{}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "test/cluster") {
		t.Errorf("Open of another directory: got %v", err)
	}
}

func TestErrorsOfTheGoCommandSayWhatToDo(t *testing.T) {
	for line, want := range map[string]error{
		`k8s.io/api@v0.36.3: Get "https://proxy.example/k8s.io": dial tcp 10.0.0.1:443: connect: connection refused`: errNetwork,
		`reading https://proxy.example/x/@v/v1.zip: 503 Service Unavailable`:                                         errNetwork,
		`k8s.io/api@v0.36.3: reading https://proxy.example/x.zip: unexpected EOF`:                                    errNetwork,
		`compile: writing output: write $WORK/b001/_pkg_.a: no space left on device`:                                 errSpace,
		`reading https://proxy.example/x/@v/v1.info: 403 Forbidden`:                                                  nil,
		`x.go:466:19: undefined: sockets.DialPipe`:                                                                   nil,
		`x.go:9:1: syntax error: unexpected EOF, expecting }`:                                                        nil,
	} {
		if got := causeOf(line); !errors.Is(got, want) {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	}
}

// What the go command says last may come after thousands of packages.
func TestTheCauseIsFoundWhereverItStands(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "yes example.test/package | head -n 20000 >&2; echo 'write a: no space left on device' >&2; echo more >&2; exit 1")
	var log bytes.Buffer
	said := 0
	if _, err := lines(cmd, &log, func(string) { said++ }); !errors.Is(err, errSpace) || said != 20002 {
		t.Errorf("lines: %d, then %v", said, err)
	}
	if !strings.HasSuffix(log.String(), "device\nmore\n") {
		t.Error("the log isn't whole")
	}
}

func TestWhatTheNetworkCausesIsTriedAgain(t *testing.T) {
	defer func(was []time.Duration) { pauses = was }(pauses)
	pauses = []time.Duration{0, 0}
	for _, test := range []struct {
		err         error
		times, want int
	}{
		{errNetwork, 1, 2}, {errNetwork, 9, 3}, {errSpace, 9, 1}, {nil, 0, 1},
	} {
		tries := 0
		err := again(t.Context(), func() error {
			if tries++; tries <= test.times {
				return test.err
			}
			return nil
		})
		if tries != test.want || (err != nil) != (test.times >= test.want) {
			t.Errorf("%v, %d times: tried %d times, then %v", test.err, test.times, tries, err)
		}
	}
}

// module is what a module proxy serves of a module without packages.
func module(t *testing.T, file string) []byte {
	t.Helper()
	const gomod = "module example.test/dep\n"
	switch filepath.Ext(file) {
	case ".info":
		return []byte(`{"Version": "v1.0.0"}`)
	case ".mod":
		return []byte(gomod)
	}
	var archive bytes.Buffer
	writer := zip.NewWriter(&archive)
	entry, err := writer.Create("example.test/dep@v1.0.0/go.mod")
	if err != nil {
		t.Error(err)
		return nil
	}
	_, err = entry.Write([]byte(gomod))
	if err := errors.Join(err, writer.Close()); err != nil {
		t.Error(err)
	}
	return archive.Bytes()
}

func TestAProxyThatFailsForAWhileIsAskedAgain(t *testing.T) {
	defer func(was []time.Duration) { pauses = was }(pauses)
	pauses = []time.Duration{0, 0, 0}
	asked := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked <= 2 {
			http.Error(w, "restarting", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(module(t, r.URL.Path))
	}))
	defer proxy.Close()
	for variable, value := range map[string]string{
		"GOPROXY": proxy.URL, "GOSUMDB": "off", "GOMODCACHE": t.TempDir(), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
	} {
		t.Setenv(variable, value)
	}
	defer func() { // Its files are read-only.
		if err := exec.Command("go", "clean", "-modcache").Run(); err != nil {
			t.Error(err)
		}
	}()
	l := layout.Layout{Cache: t.TempDir()}
	m, _ := hello(t, l, `"a"`)
	m.versions["example.test/dep"] = "v1.0.0"
	dir, err := m.ModuleDir(t.Context(), "example.test/dep")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Error(err)
	}
}

func TestAPackageIsLeftOutOfACopy(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, file := range []string{"a.go", "dns/list.go", "dns/list_test.go", "dns/one/one.go"} {
		write(t, filepath.Join(from, file), "package x")
	}
	if err := copyWithout(from, to, "dns", "package none"); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pattern := range []string{"*.go", "dns/*.go", "dns/one/*.go"} {
		found, _ := filepath.Glob(filepath.Join(to, pattern))
		files = append(files, found...)
	}
	if got, want := strings.ReplaceAll(strings.Join(files, " "), to+"/", ""), "a.go dns/leftout.go dns/one/one.go"; got != want {
		t.Errorf("copy: got %q, want %q", got, want)
	}
	if err := copyWithout(from, filepath.Join(t.TempDir(), "copy"), "gone", ""); err == nil {
		t.Error("a package that isn't there was left out")
	}
}

// top is the directory of the repository.
var top = filepath.Join("..", "..", "..", "..")

func requirements(t *testing.T, dir string) map[string]string {
	t.Helper()
	path := filepath.Join(top, dir, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(path, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range file.Replace {
		if _, ok := versions[r.Old.Path]; ok && r.New.Version != "" && r.New.Path == r.Old.Path {
			versions[r.Old.Path] = r.New.Version
		}
	}
	return versions
}

func TestWhatTheModulesShareIsCompiledOnce(t *testing.T) {
	programs := requirements(t, "test/cluster/programs")
	for _, module := range []string{".", "test/cluster", "test/apiserver", "test/monitoring", "test/chart", "test/stores", "test/destinations", "test/page"} {
		for path, version := range requirements(t, module) {
			if shared, ok := programs[path]; ok && shared != version {
				t.Errorf("%s requires %s %s, and test/cluster/programs %s: packages of it are compiled twice; in the one that is older: go get %s@...",
					module, path, version, shared, path)
			}
		}
	}
}

func TestMakeCompilesWithTheSameFlags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "hack", "go.mk"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "GOFLAGS     := "+Flags+"\n") {
		t.Errorf("hack/go.mk sets other flags than %q: packages are compiled twice", Flags)
	}
}

func TestKindPullsTheVersionsThatAreBuiltHere(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(top, "hack", "kind.sh"))
	if err != nil {
		t.Fatal(err)
	}
	programs := requirements(t, "test/cluster/programs")
	for module, before := range map[string]string{
		KindModule: "kind_version=", "github.com/tektoncd/pipeline": "releases/download/", "knative.dev/serving": "# serving ",
	} {
		if version := programs[module]; version == "" || !strings.Contains(string(script), before+version+"\n") {
			t.Errorf("hack/kind.sh doesn't say %q, the version of %s in test/cluster/programs", before+version, module)
		}
	}
}
