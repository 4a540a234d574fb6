// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/entrypointer/entrypointer/config"
)

// parts are the folders of config/. Each becomes a manifest, in the order in which they
// are applied.
var parts = []string{"logs", "webhook", "auto", "claims", "outage", "network-policy"}

// installed are the parts of install.yaml: what works on each cluster, and nothing that
// stores.
var installed = []string{"webhook", "auto"}

// writeManifests writes the manifest of each part, with the images' digests and the version.
func (r *release) writeManifests(context.Context) error {
	manifests := map[string]string{}
	for _, part := range parts {
		text, err := manifest(part)
		if err != nil {
			return err
		}
		resolved, err := r.resolve(text)
		if err != nil {
			return err
		}
		manifests[part] = config.WithVersion(resolved, r.version)
		if err := r.write(part+".yaml", []byte(r.title(part)+manifests[part])); err != nil {
			return err
		}
	}
	install := r.title(strings.Join(installed, " and ")) + manifests[installed[0]]
	for _, part := range installed[1:] {
		install += "---\n" + manifests[part]
	}
	return r.write("install.yaml", []byte(install))
}

// resolve replaces the programs in a manifest by their images.
func (r *release) resolve(manifest string) (string, error) {
	for _, i := range r.images {
		manifest = strings.ReplaceAll(manifest, "ko://"+i.program+"\n", i.reference+"\n")
	}
	if _, rest, found := strings.Cut(manifest, "ko://"); found {
		program, _, _ := strings.Cut(rest, "\n")
		return "", fmt.Errorf("a manifest names the program %q, which was not built", program)
	}
	return manifest, nil
}

// title is the first line of a manifest.
func (r *release) title(what string) string {
	return fmt.Sprintf("# entrypointer %s: %s\n", r.version, what)
}

// manifest returns the files of a part as one, in the order of their names.
func manifest(part string) (string, error) {
	files, err := config.Manifests.ReadDir(part)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, file := range files {
		text, err := config.Manifests.ReadFile(part + "/" + file.Name())
		if err != nil {
			return "", err
		}
		texts = append(texts, strings.TrimSuffix(string(text), "\n")+"\n")
	}
	return strings.Join(texts, "---\n"), nil
}
