// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tracelink_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/tracelink"
)

func TestATemplateMakesTheAddressOfATrace(t *testing.T) {
	t.Parallel()
	const digits = "0af7651916cd43dd8448eb211c80319c"
	for text, want := range map[string]string{
		"https://jaeger.example/trace/{traceID}":                               "https://jaeger.example/trace/" + digits,
		"http://127.0.0.1:16686/trace/{traceID}?uiFind=x#{traceID}":            "http://127.0.0.1:16686/trace/" + digits + "?uiFind=x#" + digits,
		`https://grafana.example/explore?left={"queries":[{"q":"{traceID}"}]}`: `https://grafana.example/explore?left={"queries":[{"q":"` + digits + `"}]}`,
	} {
		template, err := tracelink.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, template.Address(digits))
		require.Equal(t, text, template.String())
	}
	template, err := tracelink.Parse("http://127.0.0.1:16686/trace/{traceID}")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:16686", template.Host())
}

func TestNoTemplateMakesNoAddress(t *testing.T) {
	t.Parallel()
	template, err := tracelink.Parse("")
	require.NoError(t, err)
	require.Empty(t, template.Address(strings.Repeat("a", 32)))
}

// The id of a trace can be that of an event, which a container writes.
func TestOnlyTheIDOfATraceMakesAnAddress(t *testing.T) {
	t.Parallel()
	template, err := tracelink.Parse("https://jaeger.example/trace/{traceID}")
	require.NoError(t, err)
	for _, id := range []string{"", "0af7", strings.Repeat("A", 32), strings.Repeat("g", 32), strings.Repeat("a", 33), strings.Repeat("a", 29) + "/..", strings.Repeat("a", 16) + "../../../../../x"} {
		require.Empty(t, template.Address(id), id)
	}
}

func TestAWrongTemplateIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"https://jaeger.example/trace/":                                 "it has no {traceID}",
		"https://jaeger.example/trace/{traceid}":                        "it has no {traceID}",
		"jaeger.example/trace/{traceID}":                                "it isn't a URL of http or https",
		"//jaeger.example/{traceID}":                                    "it isn't a URL of http or https",
		"javascript:alert('{traceID}')":                                 "it isn't a URL of http or https",
		"data:text/html,{traceID}":                                      "it isn't a URL of http or https",
		"ftp://jaeger.example/{traceID}":                                "it isn't a URL of http or https",
		"https:///{traceID}":                                            "it has no host",
		"https://:80/{traceID}":                                         "it has no host",
		"https://{traceID}.example/":                                    "{traceID} is in its host",
		"https://jaeger.example:{traceID}/":                             "{traceID} is in its host",
		"https://user:password@jaeger.example/{traceID}":                "it has a user",
		"https://jaeger.example/\n{traceID}":                            "it is no URL",
		"https://jaeger.example/%zz{traceID}":                           "it is no URL",
		"https://jaeger.example/{traceID}/" + strings.Repeat("x", 2000): "it has more than 2000 bytes",
	} {
		_, err := tracelink.Parse(text)
		require.ErrorContains(t, err, why, text)
		require.ErrorContains(t, err, "https://jaeger.example/trace/{traceID}", "what is right")
	}
}
