// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

const (
	// MaxTools is the number of tools that an operator may offer.
	MaxTools = 16
	// maxToolName is the rest of a DNS label's length for the name of a tool, in the name
	// of an init container.
	maxToolName = 63 - len(toolContainerPrefix)
	// maxToolList is the longest list of tools, in bytes: the list is parsed for each
	// container.
	maxToolList = 4096
	// noTools is the value for no tools.
	noTools = "none"
)

func checkToolName(name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 || len(name) > maxToolName {
		return fmt.Errorf("a tool's name has at most %d lower-case letters, digits and dashes, and neither begins nor ends with a dash", maxToolName)
	}
	return nil
}

// toolNames returns the names in a value of the option tools, sorted.
func toolNames(value string) ([]string, error) {
	var names []string
	if len(value) <= maxToolList {
		names = text.SplitList(value)
	}
	if slices.Equal(names, []string{noTools}) {
		return nil, nil
	}
	for _, name := range names {
		if checkToolName(name) != nil || name == noTools {
			names = nil
			break
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 || len(names) > MaxTools {
		return nil, text.CanBe(fmt.Sprintf("names of tools, %d at most, separated by commas, or %q", MaxTools, noTools))
	}
	return names, nil
}

// toolsFlags returns no flags: tools are in a volume.
func toolsFlags(value string, _ optionContext) ([]string, error) {
	_, err := toolNames(value)
	return nil, err
}

func toolsInPathFlags(value string, c optionContext) ([]string, error) {
	on, err := parseBool(value)
	if !on || !c.tools {
		return nil, err
	}
	return []string{appendPathFlag + ToolsMountPath}, nil
}
