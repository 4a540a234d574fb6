// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/internal/target"
)

// completionPatience bounds what a completion asks the API server: a user waits at a prompt.
const completionPatience = 3 * time.Second

// completeTargets has the shell complete TYPE/NAME from an argument on, up to as many
// arguments (0 for any number).
func completeTargets(command *cobra.Command, from *cluster, kinds []target.Kind, first, most int) {
	command.ValidArgsFunction = func(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) < first || most > 0 && len(args) >= first+most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(command.Context(), completionPatience)
		defer cancel()
		typed, _, isTyped := strings.Cut(begun, "/")
		if isTyped {
			return namesOf(ctx, from, kinds, typed, typed+"/"), cobra.ShellCompDirectiveNoFileComp
		}
		var found []string
		for _, k := range kinds {
			found = append(found, k.Name+"/")
		}
		return append(found, namesOf(ctx, from, kinds, target.Pod, "")...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// namesOf returns the names of the objects of a type, with a prefix; none if they can't be
// listed.
func namesOf(ctx context.Context, from *cluster, kinds []target.Kind, typed, prefix string) (found []string) {
	at := slices.IndexFunc(kinds, func(k target.Kind) bool { return k.Is(typed) })
	client, err := from.connect()
	if at < 0 || err != nil {
		return nil
	}
	names, err := client.Names(ctx, kinds[at])
	if err != nil {
		return nil
	}
	for _, name := range names {
		// Shells expand what they complete with.
		if len(validation.IsDNS1123Subdomain(name)) == 0 {
			found = append(found, prefix+name)
		}
	}
	return found
}

// completeOutput has the shell complete the formats of --output.
func completeOutput(command *cobra.Command, formats ...string) {
	// An error means that there is no such flag, which a test would find.
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}
