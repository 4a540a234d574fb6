// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestVolumesThatWereReleasedAreFound(t *testing.T) {
	there, released, err := whichVolumes([]byte(`{"items": [
		{"metadata": {"name": "bound"}, "status": {"phase": "Bound"}},
		{"metadata": {"name": "free"}, "status": {"phase": "Available"}},
		{"metadata": {"name": "left"}, "status": {"phase": "Released"}}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(there, []string{"bound", "free", "left"}) || !slices.Equal(released, []string{"left"}) {
		t.Errorf("got %q, of which %q were released", there, released)
	}
	if _, _, err := whichVolumes([]byte("error")); err == nil {
		t.Error("what isn't JSON is no list of volumes")
	}
}

func TestEachVolumeIsAnObjectForTheOneClaim(t *testing.T) {
	objects, err := ownYAML("volumes.yaml", settings{Volumes: []volume{{"a", "/volumes/a"}, {"b", "/volumes/b"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 2 {
		t.Fatalf("got %d objects, want 2", len(objects))
	}
	if got := at(objects[1], "spec", "hostPath", "path"); got != "/volumes/b" {
		t.Errorf("path: got %v", got)
	}
	if got := at(objects[0], "spec", "claimRef", "name"); got != "logs" {
		t.Errorf("claim: got %v", got)
	}
}

func TestAVolumeIsMadeEmpty(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files to others")
	}
	v := volume{"v", filepath.Join(t.TempDir(), "volumes", "v")}
	for range 2 {
		if err := v.makeAnew(); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(v.Path)
		if err != nil || len(entries) != 0 {
			t.Fatalf("got %v, %v; want an empty directory", entries, err)
		}
		if err := os.WriteFile(filepath.Join(v.Path, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
