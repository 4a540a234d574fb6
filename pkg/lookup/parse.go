// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Only the fields that determine the command line and the stop signal are parsed. Other
// lists take no memory, however long they are.

// maxEntries is the number of entries of an index that are read. The largest official
// images have some sixty, attestations among them.
const maxEntries = 1000

// descriptor is an index's entry for an image
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

// String returns the platform in the form "linux/arm64/v8".
func (p platform) String() string {
	parts := []string{p.OS, p.Architecture}
	if p.Variant != "" {
		parts = append(parts, p.Variant)
	}
	return strings.Join(parts, "/")
}

// descriptors decodes one element after the other, up to maxEntries.
type descriptors []descriptor

// UnmarshalJSON implements json.Unmarshaler. If the key occurs several times, the lists
// are joined.
func (d *descriptors) UnmarshalJSON(list []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(list))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('[') {
		return err // null, or another value that isn't a list, counts as absent
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
	*w = nil // if the key occurs several times, the last list counts
	decoder := json.NewDecoder(bytes.NewReader(list))
	begin, err := decoder.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return &protocolError{what: "the registry sent a config with a command line that isn't a list"}
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

// parseConfig returns the command line and the stop signal in an image's config
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

// unmarshal returns errors without details of the JSON, whose content may be a secret.
func unmarshal(raw []byte, into any, what string) error {
	err := json.Unmarshal(raw, into)
	if innermost(err) != nil {
		return err
	}
	if err != nil {
		return &protocolError{what: fmt.Sprintf("the %s that the registry sent isn't JSON of that form", what)}
	}
	return nil
}
