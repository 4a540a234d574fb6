// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

func TestTheControlPlaneHasTheTagsThatKubeadmWants(t *testing.T) {
	const list = layout.Registry + "/kube-apiserver:v1.36.3\n" + layout.Registry + "/kube-controller-manager:v1.36.3\n" +
		layout.Registry + "/kube-scheduler:v1.36.3\n" + layout.Registry + "/kube-proxy:v1.36.3\n" +
		layout.Registry + "/coredns:v1.14.2\n" + layout.Registry + "/pause:3.10.2\n" + layout.Registry + "/etcd:3.6.8-0\n"
	all, err := parseControlPlane(list)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, image := range all {
		names = append(names, image.Repository+":"+strings.Join(image.Tags, ","))
	}
	const want = "etcd:3.6.8-0 kube-apiserver:v1.36.3 kube-controller-manager:v1.36.3 kube-proxy:v1.36.3 kube-scheduler:v1.36.3"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := parseControlPlane(strings.ReplaceAll(list, "etcd", "other")); err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("without etcd: %v", err)
	}
}

func TestTheFilesOfKindsNodesLeaveTheLinksToUsrAlone(t *testing.T) {
	sources := t.TempDir()
	for file, want := range map[string]int64{
		"etc/containerd/config.toml": 0o644, "kind/bin/undo-mount-hacks.sh": 0o755, "kind/README.txt": 0o644, "usr/local/bin/entrypoint": 0o755,
	} {
		path := filepath.Join(sources, "images", "base", "files", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o444); err != nil { // as in Go's module cache
			t.Fatal(err)
		}
		files, err := kindFiles(layout.Layout{}, sources, "v1.36.3")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(f File) bool { return f.Path == file && f.Mode == want }) {
			t.Errorf("%s has another mode than %o, or isn't there", file, want)
		}
		for _, f := range files {
			if top, _, _ := strings.Cut(f.Path, "/"); slices.Contains(merged, top) {
				t.Errorf("%s would replace the link /%s", f.Path, top)
			}
		}
	}
	if _, err := kindFiles(layout.Layout{}, t.TempDir(), "v1.36.3"); err == nil {
		t.Error("without kind's sources there is no error")
	}
}
