// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/check"
	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/internal/timeline"
	"github.com/entrypointer/entrypointer/internal/why"
)

var update = flag.Bool("update", false, "write docs/cli.schema.json instead of comparing with it")

const (
	// cliSchema describes what the commands print with -o json.
	cliSchema = "../../docs/cli.schema.json"
	// importPath is that of this directory.
	importPath = "github.com/entrypointer/entrypointer/cmd/kubectl-entrypointer"
)

// documents are what the commands print, by their names. The types of a document are of one
// package.
var documents = map[string]any{"why": why.Answers{}, "status": podstatus.Answers{}, "check": check.Report{}, "version": check.Versions{}, "timeline": timeline.Timeline{}, "logs": logreader.Pods{}}

// TestTheSchemaIsThatOfTheTypes writes docs/cli.schema.json from the types of the documents
// and the comments on them.
func TestTheSchemaIsThatOfTheTypes(t *testing.T) {
	t.Parallel()
	written := generated(t)
	if *update {
		require.NoError(t, os.WriteFile(cliSchema, written, 0o644))
	}
	content, err := os.ReadFile(cliSchema)
	require.NoError(t, err)
	require.Equal(t, string(written), string(content), "go test ./cmd/kubectl-entrypointer -run Schema -update writes it")
}

// generated returns the schema of all documents.
func generated(t *testing.T) []byte {
	t.Helper()
	root := &jsonschema.Schema{
		Version: jsonschema.Version, Title: "kubectl entrypointer COMMAND -o json",
		Description: "Each command has an entry in $defs. Later releases can add fields, and words to those that a field can have.",
		Definitions: jsonschema.Definitions{},
	}
	for _, command := range slices.Sorted(maps.Keys(documents)) {
		document := reflect.TypeOf(documents[command])
		r := &jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true, Namer: func(named reflect.Type) string {
			switch {
			case named == document:
				return command
			case named.Name() == "": // such as a list
				return ""
			default:
				return command + named.Name() // both have containers
			}
		}}
		directory := path.Join("../../internal", path.Base(document.PkgPath()))
		require.NoError(t, r.AddGoComments(importPath, directory, jsonschema.WithFullComment()))
		for name, comment := range r.CommentMap {
			r.CommentMap[name] = strings.Join(strings.Fields(comment), " ")
		}
		for name, definition := range r.ReflectFromType(document).Definitions {
			root.Definitions[name] = definition
			for property := definition.Properties.Oldest(); property != nil; property = property.Next() {
				require.NotEmpty(t, property.Value.Description, "field %s of %s has no comment", property.Key, name)
			}
		}
		root.AnyOf = append(root.AnyOf, &jsonschema.Schema{Ref: "#/$defs/" + command})
	}
	reason, _ := root.Definitions["whyDecision"].Properties.Get("reason")
	for known := range why.Meanings() { // a later release may have others
		reason.Examples = append(reason.Examples, known)
	}
	written, err := json.MarshalIndent(root, "", "  ")
	require.NoError(t, err)
	return append(written, '\n')
}
