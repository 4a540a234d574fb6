// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package traceids

import "strings"

// The bounds of the header tracestate, in bytes and in members.
const (
	MaxState   = 512
	maxMembers = 32
)

// ParseState checks the header tracestate, and returns it without blanks between its members.
// ok is false if it is malformed, or longer than [MaxState]: then the header has no value, as
// the standard requires.
func ParseState(tracestate string) (clean string, ok bool) {
	if len(tracestate) > MaxState {
		return "", false
	}
	members := strings.Split(tracestate, ",")
	if len(members) > maxMembers {
		return "", false
	}
	kept := members[:0]
	for _, member := range members {
		if member = strings.Trim(member, " \t"); member == "" {
			continue
		}
		key, value, found := strings.Cut(member, "=")
		if !found || !isKey(key) || !isValue(value) || hasKey(kept, key) {
			return "", false
		}
		kept = append(kept, member)
	}
	return strings.Join(kept, ","), true
}

func hasKey(members []string, key string) bool {
	for _, member := range members {
		if strings.HasPrefix(member, key+"=") {
			return true
		}
	}
	return false
}

// isKey reports whether a key is one of the standard's, or of its first edition with a tenant
// before an @.
func isKey(key string) bool {
	if key == "" || len(key) > 256 || strings.Count(key, "@") > 1 || key[0] == '@' || key[len(key)-1] == '@' {
		return false
	}
	for i := range len(key) {
		c := key[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case i > 0 && strings.IndexByte("_-*/@", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// isValue reports whether a value is 1 to 256 printable characters of ASCII.
func isValue(value string) bool {
	if value == "" || len(value) > 256 {
		return false
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return true
}
