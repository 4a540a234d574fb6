// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// needsLookup reports whether only the image knows what the container runs. The
// kubelet takes an empty list for an unset one.
func needsLookup(c corev1.Container) bool { return len(c.Command) == 0 }

// argvArgs returns those of the supervisor's args that say what to run: the
// flags for platforms that disagree, "--", the original argv. The image may be
// nil where needsLookup says no.
func argvArgs(c corev1.Container, image *lookup.Image) ([]string, error) {
	if !needsLookup(c) {
		return slices.Concat([]string{"--"}, c.Command, c.Args), nil
	}
	inherited := make([][]string, len(image.Configs))
	for i, config := range image.Configs {
		inherited[i] = inherit(c, config)
		if len(inherited[i])+len(c.Args) == 0 {
			return nil, refuse(NoCommand, "wrapping container %q: image %q has neither ENTRYPOINT nor CMD for %s; set command: in the container",
				c.Name, c.Image, config.Platform)
		}
	}
	if agree(inherited) {
		return slices.Concat([]string{"--"}, escapeAll(inherited[0]), c.Args), nil
	}
	// The node decides which of them runs; the supervisor there picks its own.
	var flags []string
	for i, config := range image.Configs {
		flags = append(flags, platformFlag+config.Platform)
		for _, token := range inherited[i] {
			flags = append(flags, argFlag+escape(token))
		}
	}
	return slices.Concat(flags, []string{"--"}, c.Args), nil
}

// wrappedArgvArgs returns the argvArgs of a container that is wrapped, and
// whether it is. That is read off its structure, which decides what will run,
// and not off any annotation, which a tenant could forge. Of the flags, only
// those that carry words of the original argv stay: the others may be another
// release's, and are set anew. What no release of ours writes makes it
// somebody else's.
func wrappedArgvArgs(c corev1.Container) ([]string, bool) {
	if !slices.Equal(c.Command, []string{EntrypointPath}) || !slices.ContainsFunc(c.VolumeMounts, isMount) {
		return nil, false
	}
	var kept []string
	for at, arg := range c.Args {
		switch {
		case arg == "--":
			return slices.Concat(kept, c.Args[at:]), true
		case strings.HasPrefix(arg, platformFlag), strings.HasPrefix(arg, argFlag):
			kept = append(kept, arg)
		case !ourFlag.MatchString(arg):
			return nil, false
		}
	}
	return nil, false
}

// ourFlag matches a flag as all releases write it, in one word with its value, so
// that the first "--" ends the flags.
var ourFlag = regexp.MustCompile(`^-[a-z][a-z0-9-]*=`)

// originalArgv is what of argvArgs is the original argv, on a platform whose
// words don't come from flags.
func originalArgv(argvArgs []string) []string {
	return argvArgs[slices.Index(argvArgs, "--")+1:]
}

// inherit is what the container takes from its image: args replace CMD, always.
// An ENTRYPOINT of one empty string is none, as Docker and containerd have it
// (https://github.com/containerd/containerd/blob/v2.3.5/internal/cri/opts/spec_opts.go):
// builders write that to undo the ENTRYPOINT of a base image. A CMD of one empty
// string is an argument.
func inherit(c corev1.Container, config lookup.Config) []string {
	entrypoint := config.Entrypoint
	if len(entrypoint) == 1 && entrypoint[0] == "" {
		entrypoint = nil
	}
	if len(c.Args) > 0 {
		return entrypoint
	}
	return slices.Concat(entrypoint, config.Cmd)
}

func agree(argvs [][]string) bool {
	for _, argv := range argvs[1:] {
		if !slices.Equal(argv, argvs[0]) {
			return false
		}
	}
	return true
}

func escapeAll(tokens []string) []string {
	escaped := make([]string, len(tokens))
	for i, token := range tokens {
		escaped[i] = escape(token)
	}
	return escaped
}

// escape makes the kubelet's expansion give token back
// (k8s.io/kubernetes/third_party/forked/golang/expansion: "$$" stands for "$").
func escape(token string) string { return strings.ReplaceAll(token, "$", "$$") }
