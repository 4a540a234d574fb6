// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package jsonschema_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/jsonschema"
)

func TestADocumentHasTheFieldsOfTheSchemaAndNoOthers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.schema.json")
	require.NoError(t, os.WriteFile(file, []byte(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$defs": {
			"pod": {"type": "object", "required": ["name"], "properties": {
				"name": {"type": "string"}, "created": {"type": "string", "format": "date-time"},
				"containers": {"type": "array", "items": {"$ref": "#/$defs/container"}}}},
			"container": {"type": "object", "properties": {"properties": {"type": "string"}, "any": true}}
		}}`), 0o600))
	for document, says := range map[string]string{
		`{"name": "p"}`: "",
		`{"name": "p", "created": "2026-11-26T12:00:00Z", "containers": [{"properties": "x", "any": {"thing": 1}}]}`: "",
		`{"name": "p", "color": "red"}`:                     "additional properties 'color' not allowed",
		`{"name": "p", "containers": [{"color": "red"}]}`:   "additional properties 'color' not allowed",
		`{"name": "p", "containers": [{"properties": {}}]}`: "got object, want string",
		`{"name": 1}`:                         "got number, want string",
		`{}`:                                  "missing property 'name'",
		`{"name": "p", "created": "at noon"}`: "not valid date-time",
		`{`:                                   "reading the document",
	} {
		err := jsonschema.Check(file, "pod", []byte(document))
		if says == "" {
			require.NoError(t, err, document)
			continue
		}
		require.ErrorContains(t, err, says, document)
	}
	require.ErrorContains(t, jsonschema.Check(file, "job", []byte("{}")), "job")
	require.NoError(t, jsonschema.CheckValue(file, "pod", map[string]string{"name": "p"}))
	require.Error(t, jsonschema.Check(file+".none", "pod", nil))
}
