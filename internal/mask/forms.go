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

// shortestLine is the length of the shortest line of a secret of several lines that
// is masked alone, in bytes: "{" and "-----END" occur elsewhere.
const shortestLine = 8

// longest is the length of the longest secret of which other forms than plain ones
// are masked, in bytes: each form takes memory.
const longest = 16 << 10

// longestTail is the length of the longest secret of whose base64 the last digit is
// masked as well that has only some of its bits, in bytes.
const longestTail = 256

// budget is how many nodes the forms of all secrets make together before only the plain
// ones are masked of the longest: each takes 24 bytes of memory.
const budget = 256 << 10

// Words are the forms of all secrets. Where they would be too long together, the
// longest secrets, of which few programs print another form, have only their plain ones.
func Words(secrets [][]byte) (words [][]byte) {
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b []byte) int { return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b)) })
	total := 0
	for _, secret := range secrets {
		forms := Forms(secret)
		if length := nodesOf(forms); total+length <= budget {
			total += length
		} else {
			forms = plainForms(secret)
		}
		words = append(words, forms...)
	}
	return words
}

// nodesOf is how many nodes words make at most, of which those have the same for what
// they begin with that are next to each other.
func nodesOf(words [][]byte) (count int) {
	var before []byte
	for _, word := range words {
		same := 0
		for same < min(len(word), len(before)) && word[same] == before[same] {
			same++
		}
		count, before = count+len(word)-same, word
	}
	return count
}

// Forms are the ways in which programs print a secret: as it is, without the space
// around it, line by line; each of them escaped for URLs and in JSON; and the whole
// in base64, also in the midst of something longer. Of a secret of more than 16 KiB,
// they are the plain ones; of one that is no text, those and base64.
//
// Not among them: hexadecimal, base64 in lines, encryption, and whatever else a
// program can compute of a secret.
func Forms(secret []byte) [][]byte {
	var forms forms
	for _, plain := range plainForms(secret) {
		forms.add(plain)
		if len(secret) > longest || !utf8.Valid(secret) {
			continue
		}
		for _, escaped := range append(inURLs(string(plain)), inJSON(string(plain))...) {
			forms.add([]byte(escaped))
		}
	}
	if len(secret) > longest {
		return forms.list
	}
	for _, whole := range [][]byte{secret, bytes.TrimSpace(secret)} {
		for offset := range 3 {
			for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				forms.add(encodedAt(encoding, whole, offset))
				for _, longer := range withLastDigit(encoding, whole, offset) {
					forms.add(longer)
				}
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

// inURLs are the ways to escape for a URL (RFC 3986): programs differ in what they
// leave as it is, and in the case of the digits.
func inURLs(plain string) (escaped []string) {
	for _, kept := range []string{
		"",                 // Go's QueryEscape, but for the space; Java's URLEncoder, nearly
		"/",                // Python's quote
		"!'()*",            // JavaScript's encodeURIComponent
		"*",                // a form that a browser sends
		"$&+=:@",           // Go's PathEscape
		"/!'()*$&+,;=:@?#", // JavaScript's encodeURI
	} {
		for _, digits := range []string{"0123456789ABCDEF", "0123456789abcdef"} {
			text := percent(plain, kept, digits)
			escaped = append(escaped, text, strings.ReplaceAll(text, "%20", "+"))
		}
	}
	return escaped
}

// percent escapes all but unreserved characters and those that are kept.
func percent(plain, kept, digits string) string {
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

// inJSON are the ways to write what is between the quotes of a string (RFC 8259):
// programs differ in what they escape that needn't be.
func inJSON(plain string) (written []string) {
	for _, escaped := range []string{
		"",      // what has to be
		"<>&",   // Go
		"<>&'=", // Gson
		"/",     // PHP, where a slash has an escape of its own
	} {
		for _, ascii := range []bool{false, true} { // Python, PHP
			for _, format := range []string{`\u%04x`, `\u%04X`} {
				written = append(written, quoted(plain, escaped, ascii, format))
			}
		}
	}
	return written
}

// short are the escapes of one letter.
var short = map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func quoted(plain, escaped string, ascii bool, format string) string {
	var b strings.Builder
	for _, r := range plain {
		has := r < ' ' || r == '"' || r == '\\' || r == '\u2028' || r == '\u2029'
		switch letter, is := short[r]; {
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

const bitsOfByte, bitsOfDigit = 8, 6

// encodedAt is what of the base64 of something longer depends on a secret alone
// that begins there at an offset, in bytes, modulo 3.
func encodedAt(encoding *base64.Encoding, secret []byte, offset int) []byte {
	encoded := encoding.AppendEncode(nil, slices.Concat(make([]byte, offset), secret))
	from := (offset*bitsOfByte + bitsOfDigit - 1) / bitsOfDigit
	to := (offset + len(secret)) * bitsOfByte / bitsOfDigit
	return encoded[min(from, to):to]
}

// withLastDigit is encodedAt with one digit more, which has the last bits of the secret,
// and the first of what comes behind it: in each of the four or sixteen ways in which
// that may begin. There are none if the secret ends with a digit, or is a long one, of
// which these bits are of no use to anybody.
func withLastDigit(encoding *base64.Encoding, secret []byte, offset int) (list [][]byte) {
	bits := (offset + len(secret)) * bitsOfByte
	rest := bits % bitsOfDigit
	if rest == 0 || len(secret) > longestTail {
		return nil
	}
	for next := range 1 << (bitsOfDigit - rest) {
		behind := byte(next << (bitsOfByte - bitsOfDigit + rest)) //nolint:gosec // G115: it has no more bits
		// The next byte is there in full, so that the digit is.
		encoded := encodedAt(encoding, append(slices.Clip(secret), behind), offset)
		length := bits/bitsOfDigit + 1 - (offset*bitsOfByte+bitsOfDigit-1)/bitsOfDigit
		list = append(list, encoded[:length])
	}
	return list
}
