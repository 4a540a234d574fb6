// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package charts has the Helm chart. Its objects are the manifests of config/, which become
// files of the chart when it is packed.
package charts

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/entrypointer/entrypointer/config"
	"github.com/entrypointer/entrypointer/monitoring"
)

// Name is the name of the chart.
const Name = "entrypointer"

//go:embed all:entrypointer
var chart embed.FS

// images is the prefix of images in the manifests.
const images = "ko://github.com/entrypointer/entrypointer/cmd"

// Files returns the files of the chart by their names, which begin with that of the chart.
// The version is that of the chart, without a v. The manifests are those of config/ as resolve
// returns them, and repository is the prefix of the images in them.
func Files(version, repository string, resolve func(manifest string) (string, error)) (map[string]string, error) {
	files := map[string]string{}
	add := func(from fs.FS, prefix string, change func(string) (string, error)) error {
		return fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(from, name)
			if err != nil {
				return err
			}
			if files[prefix+name], err = change(string(content)); err != nil {
				return fmt.Errorf("making the chart's file %s: %w", prefix+name, err)
			}
			return nil
		})
	}
	unchanged := func(text string) (string, error) { return text, nil }
	if err := add(chart, "", unchanged); err != nil {
		return nil, err
	}
	if err := add(config.Manifests, Name+"/files/", resolve); err != nil {
		return nil, err
	}
	if err := add(monitoring.Files, Name+"/files/monitoring/", unchanged); err != nil {
		return nil, err
	}
	about := Name + "/Chart.yaml"
	files[about] = strings.NewReplacer("version: 0.0.0", "version: "+version, "appVersion: devel", "appVersion: v"+version, images, repository).Replace(files[about])
	return files, nil
}
