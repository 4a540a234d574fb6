// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// Defaults are options for pods that don't set them.
type Defaults struct {
	// Source names the source of the defaults. In errors, it follows the name of an option:
	// `of namespace "team-a"`.
	Source string
	// Values are the options' values, by the options' names.
	Values map[string]string
}

// NamespaceDefaults returns the options among a namespace's annotations.
func NamespaceDefaults(namespace string, annotations map[string]string) Defaults {
	d := Defaults{Source: fmt.Sprintf("of namespace %q", namespace), Values: map[string]string{}}
	for _, o := range options {
		if value, set := annotations[o.key()]; set && !o.perContainer {
			d.Values[o.Name] = value
		}
	}
	return d
}

// Check returns an error if an option is unknown, or its value is invalid.
func (d Defaults) Check() error {
	for _, name := range slices.Sorted(maps.Keys(d.Values)) {
		o := optionNamed(name)
		if o == nil {
			names := make([]string, len(options))
			for i, o := range options {
				names[i] = o.Name
			}
			if meant := spelling.DidYouMean(name, names); meant != "" {
				return fmt.Errorf("option %q is unknown%s", name, meant)
			}
			return fmt.Errorf("option %q is unknown; the options are %s", name, strings.Join(names, ", "))
		}
		if o.perContainer {
			return fmt.Errorf("option %s: the option is for single containers; set annotation %sCONTAINER on pods", o.key(), o.forContainer())
		}
		if _, err := o.flagsFor(d.Values[name], optionContext{}); err != nil {
			return fmt.Errorf("option %s: %q is wrong; %w", o.key(), d.Values[name], err)
		}
		if d.Values["mode"] == modeExec && o.needsParent(d.Values[name]) {
			return fmt.Errorf("option %s: it contradicts option %s/mode: %s, which replaces the supervisor by the command; remove one of them", o.key(), annotation.Domain, modeExec)
		}
	}
	return nil
}
