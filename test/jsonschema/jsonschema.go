// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package jsonschema checks what a command prints by the JSON schema of the page that describes
// it. A program that reads the output may find more fields in a later release, so the schema
// allows any. A test may not: a field that the schema doesn't have is one that the page
// doesn't describe.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Check returns an error unless a document, as JSON, is valid by a definition ($defs) of the
// schema in a file, and has no other fields.
func Check(file, definition string, document []byte) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	forbidOthers(root)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(file, root); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	compiled, err := compiler.Compile(file + "#/$defs/" + definition)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	return compiled.Validate(value)
}

// CheckValue is Check for a value that isn't JSON yet.
func CheckValue(file, definition string, value any) error {
	document, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return Check(file, definition, document)
}

// forbidOthers forbids, in each object of a schema, properties that it doesn't name.
func forbidOthers(node any) {
	switch node := node.(type) {
	case map[string]any:
		for _, child := range node {
			forbidOthers(child)
		}
		if _, is := node["properties"].(map[string]any); is {
			node["additionalProperties"] = false
		}
	case []any:
		for _, child := range node {
			forbidOthers(child)
		}
	}
}
