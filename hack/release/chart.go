// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/charts"
)

// The media types of a chart in a registry (https://helm.sh/docs/topics/registries/).
const (
	chartConfigType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// writeChart packs the Helm chart, and pushes it.
func (r *release) writeChart(ctx context.Context) error {
	version := strings.TrimPrefix(r.version, "v")
	files, err := charts.Files(version, r.repository, r.resolve)
	if err != nil {
		return err
	}
	var list []packed
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, packed{name, 0o644, []byte(files[name])})
	}
	archive, err := r.pack(platform{}, list)
	if err != nil {
		return fmt.Errorf("packing the chart: %w", err)
	}
	if err := r.write(charts.Name+"-"+version+".tgz", archive); err != nil {
		return err
	}
	about, err := yaml.YAMLToJSON([]byte(files[charts.Name+"/Chart.yaml"]))
	if err != nil {
		return err
	}
	to, err := name.NewTag(r.repository + "/charts/" + charts.Name + ":" + version)
	if err != nil {
		return fmt.Errorf("naming the chart: %w", err)
	}
	if r.chart, err = pushChart(ctx, to, about, archive); err != nil {
		return fmt.Errorf("pushing the chart as %s: %w", to, err)
	}
	return nil
}

// A chartManifest is the manifest of a chart.
type chartManifest []byte

// RawManifest implements remote.Taggable.
func (m chartManifest) RawManifest() ([]byte, error) { return m, nil }

// MediaType says what the manifest is.
func (chartManifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// pushChart pushes a chart as helm push does, but without the time of the push.
func pushChart(ctx context.Context, to name.Tag, about, archive []byte) (reference string, err error) {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	for _, blob := range []v1.Layer{static.NewLayer(about, chartConfigType), static.NewLayer(archive, chartContentType)} {
		if err := remote.WriteLayer(to.Context(), blob, options...); err != nil {
			return "", err
		}
		described, err := describe(blob)
		if err != nil {
			return "", err
		}
		manifest.Layers = append(manifest.Layers, described)
	}
	manifest.Config, manifest.Layers = manifest.Layers[0], manifest.Layers[1:]
	text, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	if err := remote.Put(to, chartManifest(text), options...); err != nil {
		return "", err
	}
	digest, _, err := v1.SHA256(strings.NewReader(string(text)))
	return to.String() + "@" + digest.String(), err
}

func describe(blob v1.Layer) (d v1.Descriptor, err error) {
	if d.Digest, err = blob.Digest(); err != nil {
		return d, err
	}
	if d.Size, err = blob.Size(); err != nil {
		return d, err
	}
	d.MediaType, err = blob.MediaType()
	return d, err
}
