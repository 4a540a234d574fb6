// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"strconv"
	"strings"
)

// An object is a JSON object under construction.
type object struct{ buf []byte }

func (o *object) key(name string) {
	if o.buf == nil {
		o.buf = append(o.buf, '{')
	} else {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(o.buf, `"`+name+`":`...)
}

func (o *object) number(name string, value int) {
	o.key(name)
	o.buf = strconv.AppendInt(o.buf, int64(value), 10)
}

// str adds a string field.
func (o *object) str(name, value string) {
	o.key(name)
	o.quoted(value)
}

// shortEscapes are the characters with an escape of one letter in JSON.
const shortEscapes = "\b\f\n\r\t"

// quoted appends a string. Invalid UTF-8 becomes the replacement character.
func (o *object) quoted(value string) {
	o.buf = append(o.buf, '"')
	for _, r := range value {
		switch {
		case r == '"' || r == '\\':
			o.buf = append(o.buf, '\\', byte(r))
		case strings.ContainsRune(shortEscapes, r): // like other JSON encoders, so that masking finds a secret in it
			o.buf = append(o.buf, '\\', "bfnrt"[strings.IndexRune(shortEscapes, r)])
		case r < ' ':
			const hex = "0123456789abcdef"
			o.buf = append(o.buf, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			o.buf = append(o.buf, string(r)...)
		}
	}
	o.buf = append(o.buf, '"')
}

func (o *object) end() []byte { return append(o.buf, '}', '\n') }

// QuoteJSON returns value as a JSON string.
func QuoteJSON(value string) string {
	var o object
	o.quoted(value)
	return string(o.buf)
}
