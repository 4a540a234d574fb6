// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// checkOutput returns an error if there is no such format of output.
func checkOutput(format string) error {
	if format != "" && format != "json" && format != "yaml" {
		return fmt.Errorf("--output is %q: use json or yaml, or leave it out for text", format)
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
