// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package secretfiles

import (
	"encoding/binary"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// EncodeSnapshot encodes values, each after its length. It leaves out the oldest, which
// come first, if a snapshot has no room for all.
func EncodeSnapshot(values []string) []byte {
	var lengths [binary.MaxVarintLen64]byte
	size, first := 0, len(values)
	for first > 0 {
		value := values[first-1]
		size += binary.PutUvarint(lengths[:], uint64(len(value))) + len(value)
		if size > ring.MaxSnapshot {
			break
		}
		first--
	}
	var data []byte
	for _, value := range values[first:] {
		data = append(binary.AppendUvarint(data, uint64(len(value))), value...)
	}
	return data
}

// DecodeSnapshot decodes what EncodeSnapshot has encoded. It returns nil for anything
// else.
func DecodeSnapshot(data []byte) (values []string) {
	for len(data) > 0 {
		length, n := binary.Uvarint(data)
		if n <= 0 || length == 0 || length > uint64(len(data)-n) { //nolint:gosec // G115: 0 < n <= len(data)
			return nil
		}
		values = append(values, string(data[n:n+int(length)])) //nolint:gosec // G115: at most len(data)
		data = data[n+int(length):]                            //nolint:gosec // as above
	}
	return values
}
