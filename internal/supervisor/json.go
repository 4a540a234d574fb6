// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// parseStrings parses a JSON array of strings (RFC 8259). Package
// encoding/json does more than this, and costs a megabyte.
func parseStrings(s string) ([]string, error) {
	p := &jsonParser{rest: s}
	list := []string{}
	if !p.accept('[') {
		return nil, p.errorf("no [ at the start of the array")
	}
	if !p.accept(']') {
		for {
			str, err := p.str()
			if err != nil {
				return nil, err
			}
			list = append(list, str)
			if p.accept(']') {
				break
			}
			if !p.accept(',') {
				return nil, p.errorf("no , or ] after a string")
			}
		}
	}
	if p.skipSpace(); p.rest != "" {
		return nil, p.errorf("something follows the array")
	}
	return list, nil
}

// A jsonParser consumes rest from its start.
type jsonParser struct{ rest string }

func (p *jsonParser) errorf(why string) error {
	return errors.New(why + ", at " + strconv.Quote(p.rest[:min(len(p.rest), 20)]))
}

func (p *jsonParser) skipSpace() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// accept consumes c, if that is the next token.
func (p *jsonParser) accept(c byte) bool {
	p.skipSpace()
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// str consumes a string.
func (p *jsonParser) str() (string, error) {
	if !p.accept('"') {
		return "", p.errorf("no string where one is due")
	}
	var b strings.Builder
	for {
		i := strings.IndexAny(p.rest, "\"\\")
		if i < 0 {
			return "", p.errorf("no \" at the end of a string")
		}
		plain := p.rest[:i]
		if strings.IndexFunc(plain, func(r rune) bool { return r < ' ' }) >= 0 {
			return "", p.errorf("a control character in a string")
		}
		b.WriteString(plain)
		if p.rest[i] == '"' {
			p.rest = p.rest[i+1:]
			return b.String(), nil
		}
		p.rest = p.rest[i:]
		r, err := p.escape()
		if err != nil {
			return "", err
		}
		b.WriteRune(r)
	}
}

// escape consumes a backslash and what belongs to it. Half of a surrogate pair
// becomes U+FFFD, as with encoding/json.
func (p *jsonParser) escape() (rune, error) {
	if len(p.rest) < 2 {
		return 0, p.errorf("nothing after a backslash")
	}
	if p.rest[1] == 'u' {
		r, ok := p.hex()
		if !ok {
			return 0, p.errorf("no four hexadecimal digits after \\u")
		}
		p.rest = p.rest[6:]
		if utf16.IsSurrogate(r) {
			low, ok := p.hex()
			if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
				p.rest = p.rest[6:]
				return r, nil
			}
			return utf8.RuneError, nil
		}
		return r, nil
	}
	const names, values = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	i := strings.IndexByte(names, p.rest[1])
	if i < 0 {
		return 0, p.errorf("unknown escape")
	}
	p.rest = p.rest[2:]
	return rune(values[i]), nil
}

// hex reads \uXXXX at the start of rest without consuming it.
func (p *jsonParser) hex() (rune, bool) {
	if len(p.rest) < 6 || p.rest[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(p.rest[2:6], 16, 16)
	return rune(n), err == nil
}
