// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linked  = regexp.MustCompile(`\[([^]]*)\]\([^)\s]+\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// Headings returns the headings of a page by the anchors that GitHub gives them. The first
// one, which is the page's title, is that of the anchor "" as well.
func Headings(file string) (map[string]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	headings := map[string]string{}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
		text := linked.ReplaceAllString(match[1], "$1")
		if len(headings) == 0 {
			headings[""] = text
		}
		headings[anchor(text)] = text
	}
	if len(headings) == 0 {
		return nil, fmt.Errorf("looking for the headings of %s: there is no heading; begin the page with its title", file)
	}
	return headings, nil
}

func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, heading)
}
