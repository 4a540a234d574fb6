// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package markdown writes what a test or a benchmark found into the Markdown page that
// tells it.
package markdown

import (
	"fmt"
	"os"
	"strings"
)

// Section returns what stands in a Markdown file between the lines
// "<!-- begin NAME -->" and "<!-- end NAME -->".
func Section(file, name string) (string, error) {
	_, content, _, err := cut(file, name)
	return content, err
}

// ReplaceSection replaces what stands there.
func ReplaceSection(file, name, content string) error {
	before, _, after, err := cut(file, name)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+content+after), 0o644)
}

// cut splits a file around a section; the marks stay with what is around it.
func cut(file, name string) (before, content, after string, _ error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return "", "", "", err
	}
	begin, end := fmt.Sprintf("<!-- begin %s -->\n", name), fmt.Sprintf("<!-- end %s -->\n", name)
	before, rest, begun := strings.Cut(string(page), begin)
	content, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		return "", "", "", fmt.Errorf("looking for section %q of %s: it has no lines %q and %q, in this order; put them where it belongs", name, file, begin, end)
	}
	return before + begin, content, end + after, nil
}

// FirstSentence returns the first sentence of a text, with a full stop at its end: what
// a table says of something that a section tells in full.
func FirstSentence(text string) string {
	paragraph, _, _ := strings.Cut(text, "\n")
	sentence, _, _ := strings.Cut(paragraph, ". ")
	return strings.TrimRight(sentence, ":.") + "."
}
