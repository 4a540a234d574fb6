// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// checksums is the name of the file with the checksums of all others, but for the signatures.
const checksums = "SHA256SUMS"

// provenance is the name of the file that says of what the release was made.
const provenance = "provenance.json"

// A statement is an in-toto statement (https://in-toto.io/Statement/v1) with the provenance
// of SLSA (https://slsa.dev/spec/v1.0/provenance).
type statement struct {
	Type          string     `json:"_type"`
	Subject       []artifact `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			ResolvedDependencies []artifact        `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
		} `json:"runDetails"`
	} `json:"predicate"`
}

// An artifact is a subject or a dependency.
type artifact struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// repositoryURL names the project: the source, the builder and its releases.
const repositoryURL = "https://github.com/entrypointer/entrypointer"

// writeProvenance writes of which commit, and how, the images and files were made. It is what
// the builder says of itself: SLSA's Build Level 1, and no more.
func (r *release) writeProvenance(context.Context) error {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	files, err := r.files()
	if err != nil {
		return err
	}
	for _, f := range files {
		s.Subject = append(s.Subject, artifact{Name: f.name, Digest: map[string]string{"sha256": f.sum}})
	}
	references := []string{r.chart}
	for _, i := range r.images {
		references = append(references, i.reference)
	}
	for _, reference := range references {
		name, digest, _ := strings.Cut(reference, "@sha256:")
		s.Subject = append(s.Subject, artifact{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	definition := &s.Predicate.BuildDefinition
	definition.BuildType = repositoryURL + "/tree/main/hack/release"
	definition.ExternalParameters = map[string]string{"version": r.version, "repository": r.repository, "url": r.url}
	definition.ResolvedDependencies = []artifact{{URI: "git+" + repositoryURL, Digest: map[string]string{"gitCommit": r.commit}}}
	s.Predicate.RunDetails.Builder.ID = repositoryURL + "/tree/main/hack/release"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return r.write(provenance, append(text, '\n'))
}

// A file is one of the release.
type file struct{ name, sum string }

// files returns the files of the release, in the order of their names.
func (r *release) files() (list []file, err error) {
	err = filepath.WalkDir(r.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(r.folder, path)
		if err != nil {
			return err
		}
		sum, err := sumOf(path)
		list = append(list, file{filepath.ToSlash(name), sum})
		return err
	})
	return list, err
}

func sumOf(path string) (string, error) {
	content, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, content); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// writeChecksums writes the checksums of all files, as sha256sum -c reads them.
func (r *release) writeChecksums(context.Context) error {
	files, err := r.files()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		fmt.Fprintf(&text, "%s  %s\n", f.sum, f.name)
	}
	return r.write(checksums, []byte(text.String()))
}
