// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestAMisspeltPrefixIsAnsweredByTheKeyThatIsMeant(t *testing.T) {
	for key, meant := range map[string]string{
		"entrypointer.io/timeout":                           "entrypointer.dev/timeout",
		"entrypoint.dev/timeout":                            "entrypointer.dev/timeout",
		"entrypoiner.dev/inject":                            "entrypointer.dev/inject",
		"entry-pointer.dev/inject":                          "entrypointer.dev/inject",
		"entry-point.io/containers":                         "entrypointer.dev/containers",
		"entrypoints/delivery":                              "entrypointer.dev/delivery",
		"entrypointer/timeout":                              "entrypointer.dev/timeout",
		"entrypointerdev/timeout":                           "entrypointer.dev/timeout",
		"entrypointer.cloud/tools":                          "entrypointer.dev/tools",
		"Entrypointer.dev/inject":                           "entrypointer.dev/inject",
		"timeout.entrypointer.io/app":                       "timeout.entrypointer.dev/app",
		"depends-on.entrypoint.dev/a":                       "depends-on.entrypointer.dev/a",
		"timeout.entrypointer/app":                          "timeout.entrypointer.dev/app",
		"entrypointer.dev/timeout":                          "", // right
		"entrypointer.dev/timout":                           "", // ours, and unknown
		"entrypoint.dev/path":                               "", // another vendor's
		"entrypoint.dev/timout":                             "",
		"colour.entrypointer.io/app":                        "",
		"entrypoint.example.com/inject":                     "",
		"endpoint.io/timeout":                               "",
		"checkpoint.dev/timeout":                            "",
		"notentrypointer.example/timeout":                   "",
		"timeout":                                           "",
		"entrypointer.io":                                   "",
		"prometheus.io/env":                                 "",
		strings.Repeat("entrypointer", 100_000) + "/inject": "",
	} {
		var want []pod.Warning
		if meant != "" {
			want = []pod.Warning{{Reason: pod.ReasonUnknownAnnotation, Message: fmt.Sprintf("annotation %s is unknown and has no effect; did you mean %q?", key, meant)}}
		}
		require.Equal(t, want, pod.MisspeltPrefixes(map[string]string{key: "x"}, nil))
		if meant != "" {
			want = []pod.Warning{{Reason: pod.ReasonLabelHasNoEffect, Message: fmt.Sprintf("label %s is unknown and has no effect; did you mean the annotation %q?", key, meant)}}
		}
		require.Equal(t, want, pod.MisspeltPrefixes(nil, map[string]string{key: "x"}))
	}
}

func TestOfManyMisspeltPrefixesTheFirstAreTold(t *testing.T) {
	many := map[string]string{}
	for i := range 60_000 {
		many[fmt.Sprintf("timeout.entrypointer.io/x%d", i)] = ""
	}
	require.Len(t, pod.MisspeltPrefixes(many, many), 17)
}
