// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package text quotes the text of a pod's author within bounds, and reads and writes the
// values of annotations and flags: lists, and words in which the kubelet finds no
// variable.
//
// An API server calls webhooks before it validates: names, references and lists can be as
// long as a request, a few MiB.
package text

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

const (
	// maxQuoted is the number of bytes that are quoted from the text of a pod's author.
	maxQuoted = 320
	// MaxListed is the number of names that a text lists.
	MaxListed = 16
)

// Errorf is [fmt.Errorf] with all arguments of type string shortened.
func Errorf(format string, args ...any) error { return fmt.Errorf(format, shortenedAll(args)...) }

// Sprintf is [fmt.Sprintf] with all arguments of type string shortened.
func Sprintf(format string, args ...any) string { return fmt.Sprintf(format, shortenedAll(args)...) }

func shortenedAll(args []any) []any {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = Shortened(text)
		}
	}
	return args
}

// Shortened cuts a text to maxQuoted bytes, and then appends the original length.
func Shortened(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + fmt.Sprintf("... (%d bytes)", len(text))
}

// Listed joins the first MaxListed names, each shortened.
func Listed(names []string, separator string) string {
	var b strings.Builder
	for i, name := range names {
		if i == MaxListed {
			fmt.Fprintf(&b, "%sand %d more", separator, len(names)-MaxListed)
			break
		}
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(Shortened(name))
	}
	return b.String()
}

// CanBe returns the error for an invalid value, with the valid values.
func CanBe(values string) error { return errors.New("it can be " + values) }

// SplitList splits a list at commas and at white space.
func SplitList(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// IsAbsolutePath reports whether a value is an absolute path.
func IsAbsolutePath(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.Contains(path, "\x00")
}

// EscapeAll escapes each token.
func EscapeAll(tokens []string) []string {
	escaped := make([]string, len(tokens))
	for i, token := range tokens {
		escaped[i] = Escape(token)
	}
	return escaped
}

// Escape doubles each $, so that the kubelet's expansion restores the token
// (k8s.io/kubernetes/third_party/forked/golang/expansion: "$$" stands for "$").
func Escape(token string) string { return strings.ReplaceAll(token, "$", "$$") }
