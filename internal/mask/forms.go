// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package mask

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// minLine is the length of the shortest line of a multi-line secret that is masked on its
// own, in bytes: lines such as "{" and "export" occur in other places. A shorter line with
// a digit may be a password.
const minLine = 8

// maxEscaped is the length of the longest secret that is masked in other forms than plain
// ones, in bytes: each form takes memory.
const maxEscaped = 16 << 10

// maxLastDigit is the length of the longest secret whose base64 is masked with a last
// character that has only some bits of the secret, in bytes.
const maxLastDigit = 256

// maxNodes bounds the nodes for the forms of all secrets, each of 24 bytes of memory.
// Beyond it, the longest secrets are masked in their plain forms only.
const maxNodes = 256 << 10

// Patterns returns the forms of all secrets, and of the secrets inside of them. Beyond
// maxNodes, it returns only the plain
// forms of the longest secrets, which few programs print in another form.
func Patterns(secrets [][]byte) (patterns [][]byte) {
	secrets = slices.Clone(secrets)
	for _, secret := range slices.Clone(secrets) {
		secrets = append(secrets, Parts(secret)...)
	}
	slices.SortFunc(secrets, func(a, b []byte) int { return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b)) })
	total := 0
	for _, secret := range secrets {
		forms := Forms(secret)
		if length := countNodes(forms); total+length <= maxNodes {
			total += length
		} else {
			forms = nil
			for _, plain := range plainForms(secret) {
				forms = append(forms, withoutLineBreaks(plain))
			}
		}
		patterns = append(patterns, forms...)
	}
	return patterns
}

// countNodes returns an upper bound of the nodes for some patterns. Only adjacent
// patterns are taken to share the nodes of a common prefix.
func countNodes(patterns [][]byte) (count int) {
	var before []byte
	for _, pattern := range patterns {
		same := 0
		for same < min(len(pattern), len(before)) && pattern[same] == before[same] {
			same++
		}
		count, before = count+len(pattern)-same, pattern
	}
	return count
}

// Forms returns the forms in which programs print a secret: plain, without surrounding
// space, and line by line; each of these escaped for URLs, in JSON, in JSON in JSON, in
// HTML, and by a shell's set -x; and the whole in base64, also within something longer,
// and in lines as base64(1) and PEM have them. A secret of more than 16 KiB has only plain
// forms. A secret that isn't UTF-8 has plain forms and base64.
//
// Other forms aren't masked: hexadecimal, the lines of the base64 of something longer,
// encryption, and anything else that a program computes from a secret.
func Forms(secret []byte) [][]byte {
	var forms forms
	for _, plain := range plainForms(secret) {
		printed := withoutLineBreaks(plain)
		forms.add(printed)
		if len(secret) > maxEscaped || !utf8.Valid(secret) {
			continue
		}
		for _, escaped := range slices.Concat(urlForms(string(plain)), jsonForms(string(plain)), htmlForms(string(printed)), traceForms(string(printed))) {
			forms.add([]byte(escaped))
		}
	}
	if len(secret) > maxEscaped {
		return forms.list
	}
	for _, whole := range [][]byte{secret, bytes.TrimSpace(secret)} {
		for offset := range 3 {
			for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				forms.add(base64At(encoding, whole, offset))
				for _, longer := range base64WithLastDigit(encoding, whole, offset) {
					forms.add(longer)
				}
			}
		}
	}
	for _, width := range []int{lineOfMIME, lineOfPEM} {
		for _, line := range base64Lines(secret, width) {
			forms.add(line)
		}
	}
	return forms.list
}

// The lengths of the lines of base64: of base64(1) and MIME (RFC 2045), and of PEM
// (RFC 7468).
const lineOfMIME, lineOfPEM = 76, 64

// base64Lines returns the base64 of a secret in lines of a width, if there are several:
// each line by itself, and a short last one with the line before it. The last line differs
// by the newline that echo(1) adds to the secret.
func base64Lines(secret []byte, width int) (lines [][]byte) {
	trimmed := bytes.TrimSpace(secret)
	for _, whole := range [][]byte{secret, trimmed, slices.Concat(trimmed, []byte("\n"))} {
		encoded := base64.StdEncoding.AppendEncode(nil, whole)
		if len(encoded) <= width {
			continue
		}
		for at := 0; at < len(encoded); at += width {
			line := encoded[at:min(at+width, len(encoded))]
			if len(line) < minLine {
				line = slices.Concat(encoded[at-width:at], []byte("\n"), line)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// forms is a set in the order of insertion.
type forms struct {
	list [][]byte
	have map[string]bool
}

func (f *forms) add(form []byte) {
	if len(form) < minSecret || f.have[string(form)] {
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
			if line = bytes.TrimSpace(line); len(line) >= minLine || bytes.ContainsAny(line, "0123456789") {
				plain = append(plain, line)
			}
		}
	}
	return plain
}

// withoutLineBreaks returns a text without the line breaks around it, which would
// otherwise be masked with it and join lines, unless what is left is too short.
func withoutLineBreaks(plain []byte) []byte {
	if trimmed := bytes.Trim(plain, "\r\n"); len(trimmed) >= minSecret {
		return trimmed
	}
	return plain
}

// urlForms returns the percent-encodings of a text (RFC 3986). Programs differ in the
// characters that they leave as they are, and in the case of the digits.
func urlForms(plain string) (escaped []string) {
	for _, kept := range []string{
		"",                 // Go's QueryEscape, except for the space; Java's URLEncoder, nearly
		"/",                // Python's quote
		"!'()*",            // JavaScript's encodeURIComponent
		"*",                // HTML forms of a browser
		"$&+=:@",           // Go's PathEscape
		"/!'()*$&+,;=:@?#", // JavaScript's encodeURI
	} {
		for _, digits := range []string{"0123456789ABCDEF", "0123456789abcdef"} {
			text := percentEncode(plain, kept, digits)
			escaped = append(escaped, text, strings.ReplaceAll(text, "%20", "+"))
		}
	}
	return escaped
}

// percentEncode escapes all bytes but unreserved characters and those in kept.
func percentEncode(plain, kept, digits string) string {
	var b strings.Builder
	for i := range len(plain) {
		c := plain[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~", c) >= 0, strings.IndexByte(kept, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// jsonForms returns the encodings of a text as the inside of a JSON string (RFC 8259), and
// of such a string in another. Programs differ in what they escape beyond the mandatory
// characters.
func jsonForms(plain string) (written []string) {
	for _, escaped := range []string{
		"",      // mandatory characters only
		"<>&",   // Go
		"<>&'=", // Gson
		"/",     // PHP
	} {
		for _, ascii := range []bool{false, true} { // Python, PHP
			for _, format := range []string{`\u%04x`, `\u%04X`} {
				once := jsonEscape(plain, escaped, ascii, format)
				written = append(written, once, jsonEscape(once, "", false, format))
			}
		}
	}
	return written
}

// jsonShortEscapes are the escapes of two characters.
var jsonShortEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func jsonEscape(plain, escaped string, ascii bool, format string) string {
	var b strings.Builder
	for _, r := range plain {
		has := r < ' ' || r == '"' || r == '\\' || r == '\u2028' || r == '\u2029'
		switch letter, is := jsonShortEscapes[r]; {
		case !has && !strings.ContainsRune(escaped, r) && (!ascii || r < utf8.RuneSelf):
			b.WriteRune(r)
		case is:
			b.WriteString(letter)
		case r > '\uffff':
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, format+format, high, low)
		default:
			fmt.Fprintf(&b, format, r)
		}
	}
	return b.String()
}

// htmlForms returns the encodings of a text in HTML. Programs differ in how they write
// quotes, and leave them as they are outside of attributes.
func htmlForms(plain string) (escaped []string) {
	for _, quotes := range [][2]string{
		{"&#39;", "&#34;"},   // Go
		{"&#39;", "&quot;"},  // most
		{"&#x27;", "&quot;"}, // Python
		{"&#039;", "&quot;"}, // PHP
		{"'", "&quot;"},
		{"'", `"`},
	} {
		escaped = append(escaped, strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", quotes[0], `"`, quotes[1]).Replace(plain))
	}
	return escaped
}

// traceForms returns a text as shells print it for set -x: inside of single quotes, and
// bash inside of $” if it has control characters.
func traceForms(plain string) []string {
	var dash strings.Builder
	for i := range len(plain) {
		isQuote := plain[i] == '\''
		if isQuote && (i == 0 || plain[i-1] != '\'') {
			dash.WriteString(`'"`)
		}
		dash.WriteByte(plain[i])
		if isQuote && (i+1 == len(plain) || plain[i+1] != '\'') {
			dash.WriteString(`"'`)
		}
	}
	return []string{
		dash.String(),                          // BusyBox as well
		strings.ReplaceAll(plain, "'", `'\''`), // bash
		strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(plain),
	}
}

const bitsOfByte, bitsOfDigit = 8, 6

// base64At returns the part of the base64 of a longer text that depends only on a secret
// in it. The secret begins at an offset, in bytes modulo 3.
func base64At(encoding *base64.Encoding, secret []byte, offset int) []byte {
	encoded := encoding.AppendEncode(nil, slices.Concat(make([]byte, offset), secret))
	from := (offset*bitsOfByte + bitsOfDigit - 1) / bitsOfDigit
	to := (offset + len(secret)) * bitsOfByte / bitsOfDigit
	return encoded[min(from, to):to]
}

// base64WithLastDigit is base64At with one more character, which has the last bits of the
// secret and the first bits of what follows: one form for each of the four or sixteen
// values of the latter. It returns none if the secret ends with a whole character, or is
// so long that those bits are of no use to an attacker.
func base64WithLastDigit(encoding *base64.Encoding, secret []byte, offset int) (list [][]byte) {
	bits := (offset + len(secret)) * bitsOfByte
	rest := bits % bitsOfDigit
	if rest == 0 || len(secret) > maxLastDigit {
		return nil
	}
	for next := range 1 << (bitsOfDigit - rest) {
		following := byte(next << (bitsOfByte - bitsOfDigit + rest)) //nolint:gosec // G115: at most eight bits
		// A whole byte follows, so that the encoding has the whole character.
		encoded := base64At(encoding, append(slices.Clip(secret), following), offset)
		length := bits/bitsOfDigit + 1 - (offset*bitsOfByte+bitsOfDigit-1)/bitsOfDigit
		list = append(list, encoded[:length])
	}
	return list
}
