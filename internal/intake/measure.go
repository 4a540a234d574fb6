// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// No object that makes sense has more.
const (
	maxEntries = 10_000  // of one list or map
	maxValues  = 100_000 // in total
	maxDepth   = 64
)

// What values of a request become in memory at most, in bytes: decoded, copied, and half
// of it once more, because a list is copied while it grows. A test compares them with
// Kubernetes' types.
const (
	// perByte is for the copies of the text itself: knative.dev/pkg's, the decoder's, and
	// those in the answer.
	perByte        = 8
	perListedThing = 1280 // an object in a list, such as a container
	perObject      = 1280 // another object, such as a map of limits
	perEntry       = 416  // a name and a value, such as a label
	perListedValue = 64   // another value in a list, such as an argument
)

// rawField is the name of a field that decoders leave as text: what a manager of an
// object's fields owns. Half of an ordinary pod's values are in it.
const rawField = "fieldsV1"

// The memory for what requests become when they are decoded, in bytes. An ordinary pod of
// Tekton counts as half a megabyte.
const (
	decodedBytes            = 128 << 20
	decodedBytesOfAddress   = decodedBytes / 2
	decodedBytesOfNamespace = decodedBytes / 4
)

// measure returns how much memory a request takes when it is decoded, in bytes. The error
// is a refusal.
func measure(body []byte) (int64, error) {
	decoder := newDecoder(body)
	bytes, values := int64(len(body))*perByte, 0
	for depth := 0; ; depth = decoder.StackDepth() {
		token, err := decoder.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && values > 0:
			return bytes, nil
		case err != nil:
			return 0, refusal{malformed, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err)}
		}
		if kind := token.Kind(); kind == '}' || kind == ']' {
			continue
		}
		parent, length := decoder.StackIndex(depth)
		if parent == '{' && length%2 != 0 {
			if token.String() == rawField && isOfManager(decoder) && decoder.SkipValue() != nil {
				return 0, refusal{malformed, http.StatusBadRequest, errors.New("reading the request: it has no end, or is no JSON; send an AdmissionReview")}
			}
			continue
		}
		if parent == '{' {
			length /= 2
		}
		values++
		if err := check(decoder, depth, length, values); err != nil {
			return 0, err
		}
		bytes += cost(token.Kind(), parent)
	}
}

// isOfManager reports whether the latest name is one of an entry of managedFields.
func isOfManager(decoder *jsontext.Decoder) bool {
	return decoder.StackPointer().Parent().Parent().LastToken() == "managedFields"
}

// cost returns the memory that a value takes in a list, in an object, or by itself.
func cost(kind, parent jsontext.Kind) int64 {
	isObject := kind == '{'
	switch {
	case parent == '[' && isObject:
		return perListedThing
	case parent == '[':
		return perListedValue
	case isObject:
		return perEntry + perObject
	default:
		return perEntry
	}
}

// check refuses what is more than makes sense. The latest value is the length-th of its
// list or map, at a depth.
func check(decoder *jsontext.Decoder, depth int, length int64, values int) error {
	switch {
	case length > maxEntries:
		return tooMany("%s has more than %d entries; remove some", container(decoder, depth), maxEntries)
	case values > maxValues:
		return tooMany("there are more than %d values; remove some of %s", maxValues, container(decoder, depth))
	case depth > maxDepth:
		return tooMany("%s is nested more than %d times; nest it less", container(decoder, depth), maxDepth)
	default:
		return nil
	}
}

func tooMany(format string, args ...any) error {
	return refusal{tooManyValues, http.StatusRequestEntityTooLarge, fmt.Errorf("reading the object under review: "+format, args...)}
}

// maxPath bounds a path in an error, in bytes.
const maxPath = 256

// container names the list or the map that has the latest value, such as spec.containers.
// A list with an index is that list's element: spec.containers[3].env.
func container(decoder *jsontext.Decoder, depth int) string {
	pointer := decoder.StackPointer()
	if decoder.StackDepth() > depth || depth > 0 {
		pointer = pointer.Parent()
	}
	return path(pointer)
}

// path writes a pointer (RFC 6901) as Kubernetes writes paths of fields.
func path(pointer jsontext.Pointer) string {
	var path strings.Builder
	for name := range pointer.Tokens() {
		if _, err := strconv.Atoi(name); err == nil {
			path.WriteString("[" + name + "]")
		} else {
			path.WriteString("." + name)
		}
		if path.Len() > maxPath {
			break
		}
	}
	text := strings.TrimPrefix(strings.TrimPrefix(path.String(), ".request.object"), ".")
	if len(text) > maxPath {
		text = strings.ToValidUTF8(text[:maxPath], "") + "..."
	}
	return fmt.Sprintf("%q", text)
}
