// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package registries

import (
	"strings"
	"testing"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

func TestImagesOfDockerHubComeFromTheClustersRegistryFirst(t *testing.T) {
	for registry, want := range map[string][]string{
		layout.Registry:        {`server = "http://` + layout.Registry + `"`},
		layout.PrivateRegistry: {`server = "http://` + layout.PrivateRegistry + `"`},
		"docker.io":            {`server = "https://registry-1.docker.io"`, `[host."http://` + layout.Registry + `"]`},
	} {
		text := Hosts()[registry+"/hosts.toml"]
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("hosts.toml of %s lacks %s: %s", registry, line, text)
			}
		}
	}
}
