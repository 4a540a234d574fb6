// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launch

import (
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// A platformArgv is the ENTRYPOINT and CMD of an image for one platform. They may
// differ between the images of an index, and only the node determines which image runs.
type platformArgv struct {
	platform string // in the form that normalize returns
	argv     []string
}

// Platforms are the argvs of an image, in the order of the command line.
type Platforms struct{ all []platformArgv }

// Flags adds the flags that set p.
func (p *Platforms) Flags(f *cmdline.Flags) {
	f.Add("platform", "OS/ARCH[/VARIANT] [-arg=WORD ...]", `Put these words before the command on this platform. May be repeated for
other platforms; it is an error if the node's platform is not among them.`, p.add)
	f.Add("arg", "WORD", `A word for the preceding -platform.`, p.addArg)
	f.Add("image-words", "N:IMAGE", `Says that the words of -platform, and the first N words of the command, are
those of this image. It has no effect: it is for the injector, which looks an
image up again that is set later.`, func(string) string { return "" })
}

func (p *Platforms) add(name string) string {
	if parts := strings.Split(name, "/"); len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return "not a platform: use os/arch or os/arch/variant"
	}
	p.all = append(p.all, platformArgv{platform: normalize(name)})
	return ""
}

func (p *Platforms) addArg(word string) string {
	if len(p.all) == 0 {
		return "no -platform precedes it: put one before it"
	}
	last := &p.all[len(p.all)-1]
	last.argv = append(last.argv, word)
	return ""
}

// Argv returns the argv of a command on this node's platform.
func (p *Platforms) Argv(command []string) ([]string, error) {
	if len(p.all) == 0 {
		return command, nil
	}
	prefix, err := choosePlatformArgv(p.all, runnablePlatforms(runtime.GOARCH, machine()))
	return slices.Concat(prefix, command), err
}

// normalize returns the canonical name of a platform: it drops or adds a variant that
// is the architecture's default. The defaults are those of containerd's
// platforms.Normalize, which selects the image.
func normalize(name string) string {
	switch {
	case strings.HasSuffix(name, "/amd64/v1"), strings.HasSuffix(name, "/arm64/v8"):
		return name[:len(name)-len("/v1")]
	case strings.HasSuffix(name, "/arm"):
		return name + "/v7"
	}
	return name
}

// choosePlatformArgv returns the argv for the first platform of wanted that all
// contains.
func choosePlatformArgv(all []platformArgv, wanted []string) ([]string, error) {
	for _, w := range wanted {
		for _, p := range all {
			if p.platform == w {
				return p.argv, nil
			}
		}
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.platform
	}
	return nil, outcome.Own("choosing the command for " + strconv.Quote(wanted[0]) + ": the image has one for " +
		strings.Join(names, ", ") + " only: schedule the pod on such a node, or set command")
}

// Platform returns the platform of this program, without a variant.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// runnablePlatforms returns the platforms whose images a node of architecture goarch
// runs, best first, by the rules of containerd's platforms.Default. 64-bit nodes also
// run the 32-bit images of their kind. Only 32-bit ARM has variants; a node runs its
// own and lower ones. machine is the output of uname -m.
func runnablePlatforms(goarch, machine string) []string {
	os := runtime.GOOS + "/"
	arm := func(from string) (list []string) {
		for _, v := range []string{"8", "7", "6", "5"} {
			if v <= from {
				list = append(list, os+"arm/v"+v)
			}
		}
		return list
	}
	switch goarch {
	case "amd64":
		return []string{os + "amd64", os + "386"}
	case "arm64":
		return append([]string{os + "arm64"}, arm("8")...)
	case "arm":
		for _, v := range []string{"8", "7", "6", "5"} {
			if strings.HasPrefix(machine, "armv"+v) || v == "8" && machine == "aarch64" {
				return arm(v)
			}
		}
		return []string{os + "arm/v7"}
	}
	return []string{os + goarch}
}

// machine returns the hardware name of uname(2), or "" after an error.
func machine() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Machine[:])
}
