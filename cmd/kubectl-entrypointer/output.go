// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// wide is the format of output with more text.
const wide = "wide"

// checkOutput returns an error if there is no such format of output. more are those beside
// documents.
func checkOutput(format string, more ...string) error {
	known := append([]string{"json", "yaml"}, more...)
	if format != "" && !slices.Contains(known, format) {
		return fmt.Errorf("--output is %q: use %s, or leave it out for text", format, spelling.Alternatives(known))
	}
	return nil
}

// printDocument prints an object as one document of JSON or YAML.
func printDocument(out io.Writer, format string, object any) error {
	document, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err
	}
	if format == "yaml" {
		if document, err = yaml.JSONToYAML(document); err != nil {
			return err
		}
	} else {
		document = append([]byte(printable.JSON(string(document))), '\n')
	}
	_, err = io.WriteString(out, printable.Text(string(document)))
	return err
}
