// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the word that an author may have meant, and lists words. It is no toolkit, but
// pkg/pod and internal/config use it, and packages in pkg/ import none of internal/.
package spelling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxDistance is how many letters of a mistake are added, removed or replaced.
const maxDistance = 2

// Nearest is the known word that differs least from a mistake, "" if all differ by more
// than two letters, or by more than half of their own. Capitals don't count.
func Nearest(mistake string, known []string) (nearest string) {
	best := maxDistance + 1
	for _, word := range known {
		if abs(len(word)-len(mistake)) > maxDistance {
			continue // a mistake can be as long as a request
		}
		distance := levenshtein.ComputeDistance(strings.ToLower(mistake), strings.ToLower(word))
		if distance < best && 2*distance <= len(word) {
			nearest, best = word, distance
		}
	}
	return nearest
}

// Similar returns known words that a mistake may stand for, at most some: the nearest one, and
// those that begin with it, or have the same beginning up to a hyphen, of half of its letters
// at least, as the names that Kubernetes generates have.
func Similar(mistake string, known []string, most int) (similar []string) {
	nearest := Nearest(mistake, known)
	if nearest != "" {
		similar = append(similar, nearest)
	}
	for _, word := range known {
		if len(similar) < most && !slices.Contains(similar, word) && isRelated(mistake, word) {
			similar = append(similar, word)
		}
	}
	return similar
}

func isRelated(mistake, word string) bool {
	if mistake != "" && strings.HasPrefix(word, mistake) {
		return true
	}
	common := 0
	for common < min(len(mistake), len(word)) && mistake[common] == word[common] {
		common++
	}
	hyphen := strings.LastIndex(mistake[:common], "-")
	return hyphen > 0 && 2*(hyphen+1) >= len(mistake)
}

// DidYouMean ends an error about an unknown word: `; did you mean "timeout"?`. It is ""
// if no known word is near.
func DidYouMean(mistake string, known []string) string {
	if nearest := Nearest(mistake, known); nearest != "" {
		return fmt.Sprintf("; did you mean %q?", nearest)
	}
	return ""
}

func abs(n int) int { return max(n, -n) }

// Alternatives lists words of which one is to be used: "pod, deployment or job".
func Alternatives(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
