// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"encoding/json"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// An entry that is passed over is one that the library would pass over, too.
func FuzzPassedOverEntriesDontMatch(f *testing.F) {
	for _, key := range []string{
		"registry.example", "https://registry.example/v2/", "http://registry.example:5000/team", "*.example", "registry.*", "r*y.example/team",
		"user@registry.example", "REGISTRY.example", "docker.io", "index.docker.io/v1/", "[::1]:5000", "reg?stry.example", `registry\\.example`, "//registry.example", "registry.example//team",
	} {
		for _, host := range []string{"registry.example", "registry.example:5000", "index.docker.io", "[::1]:5000"} {
			f.Add(key, host)
		}
	}
	f.Fuzz(func(t *testing.T, key, host string) {
		registry, err := name.NewRegistry(host)
		if err != nil {
			return
		}
		repository := registry.Repo("team/app")
		key = canonical(key)
		got, err := entry{key: key, value: json.RawMessage(`{"username":"u","password":"p"}`)}.resolve(repository)
		if err == nil && got != authn.Anonymous && !mayMatch(key, repository.RegistryStr()) {
			t.Errorf("entry %q matches %q, but is passed over", key, repository.RegistryStr())
		}
	})
}
