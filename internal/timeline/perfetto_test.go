// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// A field is a field of a message of Perfetto, which may be a message itself.
type field struct{ name, message string }

// perfetto has the fields that are written, as protos/perfetto/trace of
// https://github.com/google/perfetto has them.
var perfetto = map[string]map[protowire.Number]field{
	"Trace":           {1: {"packet", "TracePacket"}},
	"TracePacket":     {8: {"timestamp", ""}, 10: {"trusted_packet_sequence_id", ""}, 11: {"track_event", "TrackEvent"}, 60: {"track_descriptor", "TrackDescriptor"}},
	"TrackDescriptor": {1: {"uuid", ""}, 2: {"name", ""}, 5: {"parent_uuid", ""}, 11: {"child_ordering", ""}, 12: {"sibling_order_rank", ""}},
	"TrackEvent":      {4: {"debug_annotations", "DebugAnnotation"}, 9: {"type", ""}, 11: {"track_uuid", ""}, 22: {"categories", ""}, 23: {"name", ""}},
	"DebugAnnotation": {6: {"string_value", ""}, 10: {"name", ""}},
}

// decoded returns a message as text.
func decoded(t *testing.T, wire []byte, message, indent string) string {
	t.Helper()
	var b strings.Builder
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		require.NoError(t, protowire.ParseError(n))
		wire = wire[n:]
		f, known := perfetto[message][number]
		require.True(t, known, "%s has no field %d", message, number)
		switch kind {
		case protowire.VarintType:
			value, n := protowire.ConsumeVarint(wire)
			require.NoError(t, protowire.ParseError(n))
			wire = wire[n:]
			fmt.Fprintf(&b, "%s%s: %d\n", indent, f.name, value)
		case protowire.BytesType:
			value, n := protowire.ConsumeBytes(wire)
			require.NoError(t, protowire.ParseError(n))
			wire = wire[n:]
			if f.message == "" {
				fmt.Fprintf(&b, "%s%s: %q\n", indent, f.name, value)
				continue
			}
			fmt.Fprintf(&b, "%s%s {\n%s%s}\n", indent, f.name, decoded(t, value, f.message, indent+"  "), indent)
		default:
			t.Fatalf("%s.%s has the wire type %d", message, f.name, kind)
		}
	}
	return b.String()
}
