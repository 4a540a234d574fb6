// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package calls counts what logs cost in an object store: the calls of three replicas of
// the log service, by kind, and their price. It has only tests. The replicas share a
// bucket in memory, and a clock that jumps from one event to the next (testing/synctest),
// so a day takes seconds. Its test writes a table of docs/benchmarks.md:
//
//	go test ./test/bench/calls -update
package calls
