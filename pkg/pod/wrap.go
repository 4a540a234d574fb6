// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// wrap rewrites the container and returns true, or updates a container that is wrapped
// already.
func (w *wrapping) wrap(ctx context.Context, c *corev1.Container) (bool, error) {
	if err := checkMounts(*c); err != nil {
		return false, err
	}
	argv, already := wrappedArgvArgs(*c)
	if !already && needsLookup(*c) {
		// Refuse an invalid value before the lookup.
		if _, err := w.optionFlags(*c, nil); err != nil {
			return false, err
		}
	}
	var image *lookup.Image
	if !already {
		var err error
		if argv, image, err = w.argvArgsOf(ctx, c); err != nil {
			return false, err
		}
	}
	w.noteStopSignal(ctx, c, image, already)
	flags, err := w.optionFlags(*c, originalArgv(argv))
	if err != nil {
		return false, err
	}
	c.Args = slices.Concat(flags, argv)
	if already {
		return false, nil
	}
	c.Command = []string{EntrypointPath}
	if !slices.ContainsFunc(c.VolumeMounts, isMount) {
		c.VolumeMounts = append(c.VolumeMounts, w.mount(w.pod))
	}
	return true, nil
}

// argvArgsOf returns the container's argvArgs. If the image had to be looked up,
// argvArgsOf also returns the image, pinned: the argv must match the image that runs,
// even if the tag moves in between. An image that is never pulled isn't pinned: the node
// has it by this name, and may not know the digest.
func (w *wrapping) argvArgsOf(ctx context.Context, c *corev1.Container) ([]string, *lookup.Image, error) {
	if !needsLookup(*c) {
		argv, err := argvArgs(*c, nil)
		return argv, nil, err
	}
	image, err := w.lookUp(ctx, c.Image)
	if err != nil {
		hint := ""
		if len(c.Args) > 0 {
			hint = " (the container sets args: only, as kubectl run does without --command)"
		}
		return nil, nil, refuse(LookupFailed, "wrapping container %q: %w%s", c.Name, err, hint)
	}
	argv, err := argvArgs(*c, image)
	if w.added += sizeOf(argv); w.added > maxAdded {
		return nil, nil, refuse(NoCommand, "wrapping container %q: the command lines of the images of all containers are longer than %d bytes, which no API server stores; set command: in the container",
			c.Name, maxAdded)
	}
	if c.ImagePullPolicy != corev1.PullNever {
		c.Image = image.Pinned
	} else if image.Digest != "" {
		w.warnings = append(w.warnings, warning(ReasonImageNotPinned, "container %q runs the command line that the registry has for image %q (%s), and the image on the node may differ, because imagePullPolicy is Never; set command: in the container to be sure",
			c.Name, c.Image, image.Digest))
	}
	return argv, image, err
}

// needsLookup reports whether only the image determines what the container runs. The
// kubelet treats an empty list like an unset one.
func needsLookup(c corev1.Container) bool { return len(c.Command) == 0 }

// argvArgs returns the part of the supervisor's args that determines what to run: the
// flags for platforms that disagree, "--", and the original argv. The image may be nil if
// needsLookup returns false.
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
		return slices.Concat([]string{"--"}, text.EscapeAll(inherited[0]), c.Args), nil
	}
	// The node decides which platform runs; the supervisor there chooses its platform's
	// words.
	var flags []string
	for i, config := range image.Configs {
		flags = append(flags, platformFlag+config.Platform)
		for _, token := range inherited[i] {
			flags = append(flags, argFlag+text.Escape(token))
		}
	}
	return slices.Concat(flags, []string{"--"}, c.Args), nil
}

// wrappedArgvArgs returns the argvArgs of a container that is wrapped, and whether it is.
// The structure of the container decides, because the structure determines what will run,
// and because a tenant could forge an annotation. Of the flags, only those with words of
// the original argv stay: the other flags may be another release's, and are set anew. A
// structure that no release of ours writes counts as the author's command.
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

// formerFlags returns the flags that an earlier call has given a container.
func formerFlags(c corev1.Container) []string {
	if _, wrapped := wrappedArgvArgs(c); !wrapped {
		return nil
	}
	return c.Args[:slices.Index(c.Args, "--")]
}

// ourFlag matches a flag as all releases write it, in one word with its value, so that
// the first "--" ends the flags.
var ourFlag = regexp.MustCompile(`^-[a-z][a-z0-9-]*=`)

// originalArgv returns the original argv in argvArgs, on a platform whose words don't
// come from flags.
func originalArgv(argvArgs []string) []string {
	return argvArgs[slices.Index(argvArgs, "--")+1:]
}

// inherit returns the words that the container takes from its image: args always replace
// CMD. An ENTRYPOINT of one empty string counts as none, as in Docker and containerd
// (https://github.com/containerd/containerd/blob/v2.3.5/internal/cri/opts/spec_opts.go):
// builders write it to undo the ENTRYPOINT of a base image. A CMD of one empty string is
// an argument.
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
