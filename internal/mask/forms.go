// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

// shortestLine is the length of the shortest line of a secret of several lines that
// is masked alone, in bytes: "{" and "-----END" occur elsewhere.
const shortestLine = 8

// Forms are the ways in which programs print a secret: as it is, without the space
// around it, line by line; each of them escaped for URLs and in JSON; and the whole
// in base64, also in the midst of something longer.
//
// Not among them: hexadecimal, base64 in lines, encryption, and whatever else a
// program can compute of a secret.
func Forms(secret []byte) [][]byte {
	var forms forms
	for _, plain := range plainForms(secret) {
		forms.add(plain)
		for _, escaped := range escapes(string(plain)) {
			forms.add([]byte(escaped))
		}
	}
	for _, whole := range [][]byte{secret, bytes.TrimSpace(secret)} {
		for offset := range 3 {
			for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				forms.add(encodedAt(encoding, whole, offset))
			}
		}
	}
	return forms.list
}

// forms are each there once.
type forms struct {
	list [][]byte
	have map[string]bool
}

func (f *forms) add(form []byte) {
	if len(form) < shortest || f.have[string(form)] {
		return
	}
	if f.have == nil {
		f.have = map[string]bool{}
	}
	f.have[string(form)] = true
	f.list = append(f.list, form)
}

func plainForms(secret []byte) [][]byte {
	plain := [][]byte{secret, bytes.TrimSpace(secret)}
	if lines := bytes.Split(plain[1], []byte("\n")); len(lines) > 1 {
		for _, line := range lines {
			if line = bytes.TrimSpace(line); len(line) >= shortestLine {
				plain = append(plain, line)
			}
		}
	}
	return plain
}

func escapes(plain string) []string {
	query, path := url.QueryEscape(plain), url.PathEscape(plain)
	return []string{
		query, path, lowerEscapes(query), lowerEscapes(path),
		inJSON(plain, true), inJSON(plain, false),
	}
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(escaped string) string {
	var b strings.Builder
	for i := 0; i < len(escaped); i++ {
		if escaped[i] == '%' && i+2 < len(escaped) {
			b.WriteString(strings.ToLower(escaped[i : i+3]))
			i += 2
		} else {
			b.WriteByte(escaped[i])
		}
	}
	return b.String()
}

// inJSON is what is between the quotes of a string.
func inJSON(plain string, html bool) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(html)
	if err := encoder.Encode(plain); err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// encodedAt is what of the base64 of something longer depends on a secret alone
// that begins there at an offset, in bytes, modulo 3.
func encodedAt(encoding *base64.Encoding, secret []byte, offset int) []byte {
	const bitsOfByte, bitsOfDigit = 8, 6
	before := make([]byte, offset)
	encoded := encoding.AppendEncode(nil, append(before, secret...))
	from := (offset*bitsOfByte + bitsOfDigit - 1) / bitsOfDigit
	to := (offset + len(secret)) * bitsOfByte / bitsOfDigit
	return encoded[min(from, to):to]
}
