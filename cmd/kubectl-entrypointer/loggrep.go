// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/logreader"
)

const (
	// foundLines is how many lines that match are printed by default, mostFound at most.
	foundLines, mostFound = 1000, 100_000
	// mostAround bounds the lines around them, on each side.
	mostAround = 100
)

// grepSettings are the values of the flags that say which lines match.
type grepSettings struct {
	expression             string
	ignoreCase             bool
	before, after, context int
}

// ofGrep are the flags that need --grep.
var ofGrep = []string{"ignore-case", "before-context", "after-context", "context-lines"}

func (g *grepSettings) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&g.expression, "grep", "", "print only lines that match a regular expression (RE2); without an object, of all logs of the namespace; --tail counts lines before that")
	flags.BoolVarP(&g.ignoreCase, "ignore-case", "i", false, "with --grep, ignore the case of letters")
	flags.IntVarP(&g.before, "before-context", "B", 0, "with --grep, the number of lines that are printed before each line that matches")
	flags.IntVarP(&g.after, "after-context", "A", 0, "with --grep, the number of lines that are printed after each line that matches")
	flags.IntVarP(&g.context, "context-lines", "C", 0, "with --grep, the number of lines that are printed before and after each line that matches")
}

// searches reports whether the log service picks the lines. Only the plugin knows which lines
// are the last ones of a stream, or of the run before the last one, and what is yet to come.
func (s *settings) searches() bool {
	return s.grep.expression != "" && !s.follow && !s.previous && s.tail < 0
}

// search returns the search for the log service.
func (g *grepSettings) search(limit int) logreader.Search {
	return logreader.Search{Expression: g.expression, IgnoreCase: g.ignoreCase, Before: max(g.before, g.context), After: max(g.after, g.context), Limit: limit}
}

// match checks the flags, and has the printer pick lines if the log service doesn't.
func (s *settings) match(o *logreader.Options, command *cobra.Command) (err error) {
	g := s.grep
	for _, name := range ofGrep {
		isSet := command.Flags().Changed(name)
		switch {
		case isSet && g.expression == "":
			return fmt.Errorf("--%s is set without --grep: use both, or none of them", name)
		case isSet && !s.searches() && name != "ignore-case":
			return fmt.Errorf("--%s is of no use with --follow, --previous and --tail: leave it out", name)
		}
	}
	if least, most := min(g.before, g.after, g.context), max(g.before, g.after, g.context); least < 0 || most > mostAround {
		return fmt.Errorf("there are no lines around others but 0 to %d: use such a number for -A, -B and -C", mostAround)
	}
	if g.expression == "" {
		return nil
	}
	match, err := g.compile()
	if err == nil && !s.searches() {
		o.Printer.Match = match
	}
	return err
}

// compile returns the expression for the plugin.
func (g *grepSettings) compile() (*regexp.Regexp, error) {
	expression := g.expression
	if expression == "" {
		return nil, errors.New("--ignore-case is set without --grep: use both, or none of them")
	}
	if g.ignoreCase {
		expression = "(?i)" + expression
	}
	match, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("--grep is %q: %w", g.expression, err)
	}
	return match, nil
}

// checkLimit checks --limit, and sets the usual one.
func (s *settings) checkLimit(command *cobra.Command, usual int) error {
	isSet := command.Flags().Changed("limit")
	switch {
	case !isSet:
		s.limit = usual
	case !s.list && !s.searches():
		return errors.New("--limit is of use with --list, and with --grep without --follow, --previous and --tail: use --tail to print fewer lines")
	case s.limit < 1:
		return fmt.Errorf("--limit is %d: use a number above 0", s.limit)
	case s.searches() && s.limit > mostFound:
		return fmt.Errorf("--limit is %d: use %d at most", s.limit, mostFound)
	}
	return nil
}
