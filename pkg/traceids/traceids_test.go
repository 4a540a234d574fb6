// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package traceids_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/traceids"
)

const (
	trace = "0af7651916cd43dd8448eb211c80319c"
	span  = "b7ad6b7169203331"
)

func TestATraceHasTheUIDOfTheRunWithWhichItBegins(t *testing.T) {
	const uid = "0af76519-16cd-43dd-8448-eb211c80319c"
	id, ok := traceids.Of(uid)
	require.True(t, ok)
	require.Equal(t, trace, id.String())
	root, ok := traceids.SpanOf(uid)
	require.True(t, ok)
	require.Equal(t, "8448eb211c80319c", root.String())
	require.Equal(t, root, id.Root())
}

func TestOnlyUIDsOfKubernetesMakeIDs(t *testing.T) {
	for _, uid := range []string{
		"", "0", trace,
		"0af76519-16cd-43dd-8448-eb211c80319", "0af76519-16cd-43dd-8448-eb211c80319c0",
		"0AF76519-16CD-43DD-8448-EB211C80319C",
		"0af76519_16cd_43dd_8448_eb211c80319c",
		"0af76519-16cd-43dd-8448-eb211c80319g",
		"0af7651-916cd-43dd-8448-eb211c80319c",
		"00000000-0000-0000-0000-000000000000",
	} {
		_, ok := traceids.Of(uid)
		require.False(t, ok, uid)
		_, ok = traceids.SpanOf(uid)
		require.False(t, ok, uid)
	}
	_, ok := traceids.SpanOf("0af76519-16cd-43dd-0000-000000000000")
	require.False(t, ok, "a span of zeros is none")
}

func TestAParentIsReadAndWrittenAsW3CSays(t *testing.T) {
	for name, test := range map[string]struct{ header, want string }{
		"sampled":                        {"00-" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-01"},
		"not sampled":                    {"00-" + trace + "-" + span + "-00", "00-" + trace + "-" + span + "-00"},
		"a random id":                    {"00-" + trace + "-" + span + "-03", "00-" + trace + "-" + span + "-03"},
		"unknown flags":                  {"00-" + trace + "-" + span + "-fd", "00-" + trace + "-" + span + "-01"},
		"a later version":                {"01-" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-01"},
		"a later version, with more":     {"cc-" + trace + "-" + span + "-01-what-ever", "00-" + trace + "-" + span + "-01"},
		"this version, with more":        {"00-" + trace + "-" + span + "-01-what", ""},
		"a later version, glued":         {"cc-" + trace + "-" + span + "-01what", ""},
		"the version that can't exist":   {"ff-" + trace + "-" + span + "-01", ""},
		"a version in upper case":        {"0A-" + trace + "-" + span + "-01", ""},
		"no version":                     {trace + "-" + span + "-01", ""},
		"a version of one digit":         {"0-" + trace + "-" + span + "-01", ""},
		"a trace of zeros":               {"00-" + strings.Repeat("0", 32) + "-" + span + "-01", ""},
		"a span of zeros":                {"00-" + trace + "-" + strings.Repeat("0", 16) + "-01", ""},
		"a trace in upper case":          {"00-" + strings.ToUpper(trace) + "-" + span + "-01", ""},
		"a trace that is no number":      {"00-" + trace[:31] + "g-" + span + "-01", ""},
		"a span that is no number":       {"00-" + trace + "-" + span[:15] + "\n-01", ""},
		"flags that are no number":       {"00-" + trace + "-" + span + "-.1", ""},
		"flags of one digit":             {"00-" + trace + "-" + span + "-1", ""},
		"no flags":                       {"00-" + trace + "-" + span, ""},
		"another sign between its parts": {"00-" + trace + "_" + span + "-01", ""},
		"a blank before":                 {" 00-" + trace + "-" + span + "-01", ""},
		"a blank behind":                 {"00-" + trace + "-" + span + "-01 ", ""},
		"nothing":                        {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			parent, ok := traceids.Parse(test.header)
			require.Equal(t, test.want != "", ok)
			if ok {
				require.Equal(t, test.want, parent.String())
				require.Equal(t, trace, parent.Trace.String())
				require.Equal(t, span, parent.Span.String())
			}
		})
	}
}

func TestAStateIsReadAsW3CSays(t *testing.T) {
	long := strings.Repeat("v", 256)
	for name, test := range map[string]struct {
		header, want string
		ok           bool
	}{
		"one":                         {"rojo=00f067aa0ba902b7", "rojo=00f067aa0ba902b7", true},
		"several, with blanks":        {"a=1 , b=x y,\t c@d=2", "a=1,b=x y,c@d=2", true},
		"an empty member":             {"a=1,,b=2", "a=1,b=2", true},
		"none":                        {"", "", true},
		"a digit before":              {"1a=2", "1a=2", true},
		"signs":                       {"a_-*/b=$(HOME)", "a_-*/b=$(HOME)", true},
		"a value as long as can be":   {"a=" + long, "a=" + long, true},
		"a longer value":              {"a=v" + long, "", false},
		"a longer key":                {"a" + long + "=1", "", false},
		"more bytes":                  {"a=" + long + ",b=" + long, "", false},
		"more members":                {strings.Repeat("a=1,", 33), "", false},
		"twice the same":              {"a=1,a=2", "", false},
		"no value":                    {"a=", "", false},
		"no sign":                     {"a", "", false},
		"no key":                      {"=1", "", false},
		"a second sign":               {"a=b=c", "", false},
		"a key in upper case":         {"A=1", "", false},
		"a key that begins otherwise": {"_a=1", "", false},
		"two tenants":                 {"a@b@c=1", "", false},
		"a control character":         {"a=\x00", "", false},
		"a line":                      {"a=1\nb", "", false},
		"another language":            {"a=ü", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := traceids.ParseState(test.header)
			require.Equal(t, test.ok, ok)
			require.Equal(t, test.want, got)
		})
	}
}

// FuzzWhatIsPassedOnIsValid feeds headers that a tenant may write.
func FuzzWhatIsPassedOnIsValid(f *testing.F) {
	f.Add("00-"+trace+"-"+span+"-01", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")
	f.Add("cc-"+trace+"-"+span+"-ff-x", "a=1, b@c=2")
	f.Add("ff-"+trace+"-"+span+"-00", "a=1,a=2")
	f.Add("", ",")
	f.Fuzz(func(t *testing.T, header, state string) {
		if parent, ok := traceids.Parse(header); ok {
			again, ok := traceids.Parse(parent.String())
			require.True(t, ok)
			require.Equal(t, parent, again)
			require.Len(t, parent.String(), 55)
			require.Contains(t, header, "-"+parent.Trace.String()+"-"+parent.Span.String()+"-")
		}
		if clean, ok := traceids.ParseState(state); ok {
			require.LessOrEqual(t, len(clean), traceids.MaxState)
			require.NotContains(t, clean, "\n")
			again, ok := traceids.ParseState(clean)
			require.True(t, ok)
			require.Equal(t, clean, again)
		}
	})
}

func TestATraceIsNamedByAHeaderOrAUID(t *testing.T) {
	for text, want := range map[string]string{
		"00-" + trace + "-" + span + "-00":     "00-" + trace + "-" + span + "-00",
		"0af76519-16cd-43dd-8448-eb211c80319c": "00-" + trace + "-0000000000000000-01",
		trace:                                  "",
		"":                                     "",
	} {
		parent, ok := traceids.From(text)
		require.Equal(t, want != "", ok, text)
		if ok {
			require.Equal(t, want, parent.String())
		}
	}
}
