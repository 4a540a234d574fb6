// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import commonpb "go.opentelemetry.io/proto/otlp/common/v1"

// attributes returns attributes by key.
func attributes(list []*commonpb.KeyValue) map[string]any {
	found := map[string]any{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			found[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			found[a.Key] = v.IntValue
		case *commonpb.AnyValue_BoolValue:
			found[a.Key] = v.BoolValue
		}
	}
	return found
}
