// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package ascii compares words of ASCII. The functions of package strings link Unicode's
// tables, which would take 8 KB in each pod.
package ascii

// EqualFold reports whether a and b are equal but for the case of ASCII letters.
func EqualFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for at := range len(a) {
		if lower(a[at]) != lower(b[at]) {
			return false
		}
	}
	return true
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		b += 'a' - 'A'
	}
	return b
}
