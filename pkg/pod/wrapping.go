// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
)

// A wrapping is the state of the work on one pod.
type wrapping struct {
	*Injector
	namespace string
	pod       *parsedPod // as it was sent
	kind      *Kind
	plan      *between.Plan
	supply    supply // of the supervisor
	added     int    // bytes, see maxAdded
	// signalsTook is the time that lookups of stop signals have taken so far.
	signalsTook time.Duration
	additions   []string // see Result
	warnings    []Warning
	toolboxes   map[string]*toolbox // by the sources of the settings
	stepDirs    *[]string           // see startFlags; nil before the first look
	trace       []string            // see traceFlags; nil before the first look
}

// warn adds warnings.
func (w *wrapping) warn(warnings ...Warning) { w.warnings = slices.Concat(w.warnings, warnings) }

// A container is one that is to be wrapped, with what each stage has learnt of it.
type container struct {
	*corev1.Container     // as it was sent
	index             int // in spec.containers
	settings          []setting
	toolbox           *toolbox
	unsent            string // why the output can't be sent that is to be sent, "" if it can
	// words are what the container runs, and isWrapped reports whether it has come with
	// them behind a supervisor. Of another container, isKnown reports whether they are known
	// without its image.
	words     words
	isWrapped bool
	isKnown   bool
	// wasUnwrapped reports whether an earlier call has left it unwrapped, by the pod's status.
	wasUnwrapped bool
	flags        []string // of its supervisor
	tracesPod    bool     // whether its trace begins with the pod, whose UID a variable has
	added        int      // bytes of the flags and their values, see maxAdded
	// What a registry has said: the image, pinned, and the stop signal, both "" if they
	// are the usual ones, and the failed lookup for which the container runs unwrapped.
	image, signal string
	waived        *lookup.Error
}

// words are what a container runs, as arguments of its supervisor.
type words struct {
	// flags have the words of the image for each platform, if they differ: the node decides
	// which platform runs, and the supervisor there chooses its platform's words.
	flags []string
	// argv is the original argv, or the part of it that follows the words of flags.
	argv []string
	// image is the image that the words of flags and the first inherited words of argv are
	// of, as it was left in the container, "" if the container has all words itself.
	image     string
	inherited int
}

// own returns the args of the container's author.
func (w words) own() []string { return w.argv[w.inherited:] }

// all returns the supervisor's arguments for the words.
func (w words) all() []string {
	var mark []string
	if w.image != "" {
		mark = []string{imageWordsFlag + strconv.Itoa(w.inherited) + ":" + w.image}
	}
	return slices.Concat(mark, w.flags, []string{"--"}, w.argv)
}

// A setting is an option's value, and its source.
type setting struct {
	*Option
	value    string
	distance int       // ofContainer, ofPod, or ofDefaults and the index of the Defaults
	key      string    // of the pod's annotation, if that is the source
	defaults *Defaults // if they are the source
}

// A toolbox holds the tools that a container asks for and gets.
type toolbox struct {
	tools    []Tool
	warnings []Warning // of the tools that it lacks
	warned   bool
}
