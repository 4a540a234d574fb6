// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package otlp makes the values of OTLP that log records and spans have in common.
package otlp

import (
	"strings"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// Scope is the instrumentation scope of all that the log service sends.
func Scope() *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: "entrypointer"}
}

// String returns a text for OTLP: protobuf doesn't encode what isn't UTF-8, and clients
// choose some texts.
func String(value string) string { return strings.ToValidUTF8(value, string(utf8.RuneError)) }

// Text returns an attribute with a text.
func Text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: String(value)}}}
}

// Number returns an attribute with a number.
func Number(key string, value int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}}
}

// Bool returns an attribute with a truth value.
func Bool(key string, value bool) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: value}}}
}
