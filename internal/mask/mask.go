// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package mask writes asterisks over secrets in a stream of bytes, which arrives in
// chunks and may have gaps.
//
// A secret becomes as many asterisks, so that offsets stay valid. Bytes that may turn out
// to begin a secret are held back: at any time, the longest end of the stream that begins
// a secret. No timer releases them.
//
// A gap may cut a secret in two. The pieces next to the gap are masked as well, because
// they would help to guess the rest.
package mask

// minSecret is the length of the shortest masked secret, in bytes. Masking shorter ones
// would make logs unreadable, and an attacker can guess them anyway.
const minSecret = 6

// minPartial is from which length on the beginning of a secret is masked at the end of a
// stream, in bytes: a killed process may have printed a part of a secret. A shorter match
// is more likely to be chance.
const minPartial = 4

// A Masker is an immutable set of secrets, for any number of streams.
//
// It is the automaton of Aho and Corasick. Each node stands for a prefix of a secret. The
// node of a stream is the longest prefix with which the stream ends so far.
type Masker struct {
	nodes        []node
	rootChildren [256]int32 // by byte: the children of node 0, the root
	patterns     [][]byte
}

type node struct {
	child, sibling int32 // 0 for none
	fail           int32 // the node of the longest proper suffix of the prefix
	depth          int32 // the length of the prefix, in bytes
	match          int32 // the length of the longest secret with which the prefix ends, 0 for none
	b              byte
}

// New returns a masker of patterns. It ignores those that are shorter than minSecret.
// Patterns returns the patterns of secrets.
func New(patterns [][]byte) *Masker {
	m := &Masker{nodes: make([]node, 1, 1+countNodes(patterns))}
	for _, pattern := range patterns {
		if len(pattern) >= minSecret {
			m.add(pattern)
		}
	}
	m.link()
	return m
}

func (m *Masker) add(pattern []byte) {
	at := int32(0)
	for _, b := range pattern {
		next := m.child(at, b)
		if next == 0 {
			next = int32(len(m.nodes)) //nolint:gosec // no pod has secrets of two gigabytes
			m.nodes = append(m.nodes, node{b: b, depth: m.nodes[at].depth + 1, sibling: m.nodes[at].child})
			m.nodes[at].child = next
			if at == 0 {
				m.rootChildren[b] = next
			}
		}
		at = next
	}
	if m.nodes[at].match == 0 {
		m.nodes[at].match = m.nodes[at].depth
		m.patterns = append(m.patterns, pattern)
	}
}

// child returns the node of a prefix and one more byte, 0 if there is none.
func (m *Masker) child(at int32, b byte) int32 {
	if at == 0 {
		return m.rootChildren[b]
	}
	next := m.nodes[at].child
	for next != 0 && m.nodes[next].b != b {
		next = m.nodes[next].sibling
	}
	return next
}

// link sets fail and match of all nodes, in the order of their depths.
func (m *Masker) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for next := m.nodes[at].child; next != 0; next = m.nodes[next].sibling {
			if at != 0 {
				m.nodes[next].fail = m.step(m.nodes[at].fail, m.nodes[next].b)
			}
			if fail := m.nodes[next].fail; m.nodes[next].match == 0 {
				m.nodes[next].match = m.nodes[fail].match
			}
			queue = append(queue, next)
		}
	}
}

// step returns the node of a stream after one more byte.
func (m *Masker) step(at int32, b byte) int32 {
	for {
		if next := m.child(at, b); next != 0 || at == 0 {
			return next
		}
		at = m.nodes[at].fail
	}
}
