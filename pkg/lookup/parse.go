// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// What is read of manifests and configs is what decides about a command line
// and how it is stopped, and nothing else: a list that isn't needed takes no memory, however long it is.

// maxEntries is how many entries of an index are looked at. The largest
// official images have some sixty, attestations among them.
const maxEntries = 1000

// descriptor is what an index says of an image
// (https://github.com/opencontainers/image-spec/blob/main/image-index.md).
type descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Platform  *platform `json:"platform"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant"`
}

// String is as in "linux/arm64/v8".
func (p platform) String() string {
	parts := []string{p.OS, p.Architecture}
	if p.Variant != "" {
		parts = append(parts, p.Variant)
	}
	return strings.Join(parts, "/")
}

// descriptors decodes one element after the other, up to maxEntries.
type descriptors []descriptor

// UnmarshalJSON implements json.Unmarshaler. A list that is there several times
// counts as a whole.
func (d *descriptors) UnmarshalJSON(list []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(list))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('[') {
		return err // null, or something else that isn't a list: as if it weren't there
	}
	for decoder.More() {
		if len(*d) == maxEntries {
			return &notAnImageError{what: fmt.Sprintf("an index of more than %d entries", maxEntries)}
		}
		*d = append(*d, descriptor{})
		if err := decoder.Decode(&(*d)[len(*d)-1]); err != nil {
			return err
		}
	}
	return nil
}

// words decodes one after the other, up to as many as a command line may have.
type words []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(list []byte) error {
	*w = nil // of a list that is there several times, the last counts
	decoder := json.NewDecoder(bytes.NewReader(list))
	begin, err := decoder.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return &strangeError{what: "the registry sent a config with a command line that isn't a list"}
	}
	for decoder.More() {
		if len(*w) == maxArgvBytes/stringHeader {
			return &notAnImageError{what: fmt.Sprintf("command lines of more than %d words", len(*w))}
		}
		var word string
		if err := decoder.Decode(&word); err != nil {
			return err
		}
		*w = append(*w, word)
	}
	return nil
}

func parseIndex(raw []byte) ([]descriptor, error) {
	var index struct {
		Manifests descriptors `json:"manifests"`
	}
	if err := unmarshal(raw, &index, "index"); err != nil {
		return nil, err
	}
	return index.Manifests, nil
}

// parseManifest returns the descriptor of an image's config
// (https://github.com/opencontainers/image-spec/blob/main/manifest.md).
func parseManifest(raw []byte) (descriptor, error) {
	var manifest struct {
		Config descriptor `json:"config"`
	}
	err := unmarshal(raw, &manifest, "manifest")
	return manifest.Config, err
}

// parseConfig returns the command line and the stop signal that are in an image's config
// (https://github.com/opencontainers/image-spec/blob/main/config.md).
func parseConfig(raw []byte) (Config, error) {
	var file struct {
		platform

		Config struct {
			Entrypoint, Cmd words
			StopSignal      stopSignal
		} `json:"config"`
	}
	if err := unmarshal(raw, &file, "config"); err != nil {
		return Config{}, err
	}
	return Config{Platform: file.String(), Entrypoint: file.Config.Entrypoint, Cmd: file.Config.Cmd, StopSignal: string(file.Config.StopSignal)}, nil
}

// unmarshal doesn't tell what is wrong with the JSON: whatever was read may be
// somebody's secret.
func unmarshal(raw []byte, into any, what string) error {
	err := json.Unmarshal(raw, into)
	if innermost(err) != nil {
		return err
	}
	if err != nil {
		return &strangeError{what: fmt.Sprintf("the %s that the registry sent isn't JSON of that form", what)}
	}
	return nil
}
