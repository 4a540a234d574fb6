// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package mask writes asterisks over secrets in a stream of bytes, of which it sees
// one chunk at a time and not always all.
//
// A secret becomes as many asterisks, so that offsets stay. Nothing that may yet
// turn out to be a secret is let through: what is held back at any time is the
// longest end of the stream with which one of them begins, and no timer lets it go.
//
// Where bytes were dropped, a secret may have been cut. What is left of it next to
// the gap is masked as well: it would be of use to somebody who guesses the rest.
package mask

// shortest is the length of the shortest secret that is masked, in bytes. Shorter
// ones would make a log unreadable, and are found by trying anyway.
const shortest = 6

// usable is how much of a secret is masked at the end of a stream: a process that
// is killed may have printed a part of it. Less is more likely to be chance.
const usable = 4

// A Masker knows the secrets. It doesn't change, and serves any number of streams.
//
// It is the automaton of Aho and Corasick: each node is a beginning of a secret,
// and the one that a stream is at is the longest with which it ends so far.
type Masker struct {
	nodes []node
	first [256]int32 // the children of the root, which is node 0
	words [][]byte   // the secrets
}

type node struct {
	child, sibling int32 // 0 is none
	fail           int32 // the longest proper end of this node that is a node
	depth          int32 // its length, in bytes
	match          int32 // the length of the longest secret that it ends with, 0 if none
	b              byte
}

// New returns a masker of words, of which those that are too short don't count. See
// Words for the ways in which a secret may be printed.
func New(words [][]byte) *Masker {
	m := &Masker{nodes: make([]node, 1, 1+nodesOf(words))}
	for _, word := range words {
		if len(word) >= shortest {
			m.add(word)
		}
	}
	m.link()
	return m
}

func (m *Masker) add(word []byte) {
	at := int32(0)
	for _, b := range word {
		next := m.child(at, b)
		if next == 0 {
			next = int32(len(m.nodes)) //nolint:gosec // no pod has secrets of two gigabytes
			m.nodes = append(m.nodes, node{b: b, depth: m.nodes[at].depth + 1, sibling: m.nodes[at].child})
			m.nodes[at].child = next
			if at == 0 {
				m.first[b] = next
			}
		}
		at = next
	}
	if m.nodes[at].match == 0 {
		m.nodes[at].match = m.nodes[at].depth
		m.words = append(m.words, word)
	}
}

// child is the node that is at's and one byte more, 0 if there is none.
func (m *Masker) child(at int32, b byte) int32 {
	if at == 0 {
		return m.first[b]
	}
	next := m.nodes[at].child
	for next != 0 && m.nodes[next].b != b {
		next = m.nodes[next].sibling
	}
	return next
}

// link finds where to go on from a node that has no child for a byte, from the
// short ones to the long ones.
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

// step is the node of a stream that was at a node, after one byte more.
func (m *Masker) step(at int32, b byte) int32 {
	for {
		if next := m.child(at, b); next != 0 || at == 0 {
			return next
		}
		at = m.nodes[at].fail
	}
}
