// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// maxToolPath is the longest path of a program, in bytes.
const maxToolPath = 1024

// notInImages are directories whose content doesn't come from the image.
var notInImages = []string{path.Dir(ToolsMountPath), "/proc", "/sys", "/dev"}

// Check returns an error if no pod can get the tool.
func (t Tool) Check() error {
	switch {
	case checkToolName(t.Name) != nil:
		return fmt.Errorf("name %q: %w", text.Shortened(t.Name), checkToolName(t.Name))
	case t.Name == noTools:
		return fmt.Errorf("name %q stands for no tools; choose another", noTools)
	}
	if err := lookup.CheckPinned(t.Image); err != nil {
		return err
	}
	if t.Path == "/" || !path.IsAbs(t.Path) || path.Clean(t.Path) != t.Path || len(t.Path) > maxToolPath || strings.Contains(t.Path, "\x00") {
		return fmt.Errorf("path %q can't be a program's path in an image; write an absolute path of at most %d bytes without \".\", \"..\" and double slashes, such as /ko-app/%s",
			text.Shortened(t.Path), maxToolPath, t.Name)
	}
	if at := slices.IndexFunc(notInImages, func(dir string) bool { return within(t.Path, dir) }); at >= 0 {
		return fmt.Errorf("path %q is in %s, where a container has other files than its image; move the program elsewhere in the image", t.Path, notInImages[at])
	}
	return nil
}

// ToolNames returns the tools that defaults ask for, sorted. It fails if [Defaults.Check]
// does.
func ToolNames(d Defaults) ([]string, error) {
	value, set := d.Values[toolsOption]
	if !set {
		return nil, nil
	}
	return toolNames(value)
}

// toolbox returns the toolbox of a container with these settings. If the pod's own
// annotation asks for a tool that isn't available, the pod is refused. If the namespace
// or the operator asks, the pod's author can't correct the setting: the pod runs without
// the tool, with a warning.
func (w *wrapping) toolbox(settings []setting) (*toolbox, error) {
	at := slices.IndexFunc(settings, func(s setting) bool { return s.Name == toolsOption })
	if at < 0 {
		return &toolbox{}, nil
	}
	asked := settings[at]
	box, known := w.toolboxes[asked.source()]
	if known { // cached, because a request has room for many containers
		return box, nil
	}
	box = &toolbox{}
	names, _ := toolNames(asked.value) // toolsFlags reports the error
	for _, name := range names {
		tool, missing, why := w.toolNamed(w.namespace, name)
		switch {
		case why == nil:
			box.tools = append(box.tools, tool)
		case asked.isPods():
			return box, refuse(InvalidAnnotation, "reading %s: %w", asked.source(), why)
		default:
			box.warnings = append(box.warnings, warning(missing, "reading %s: %v; its containers run without it", asked.source(), why))
		}
	}
	if w.toolboxes == nil {
		w.toolboxes = map[string]*toolbox{}
	}
	w.toolboxes[asked.source()] = box
	return box, nil
}

// LackingTools warns of the tools that a namespace asks for without effect.
func (i *Injector) LackingTools(namespace string, d Defaults) (warnings []Warning) {
	names, _ := ToolNames(d) // Check reports the error
	for _, name := range names {
		if _, missing, why := i.toolNamed(namespace, name); why != nil {
			warnings = append(warnings, warning(missing, "reading annotation %s/%s %s: %v; until then, its pods run without it", annotation.Domain, toolsOption, d.Source, why))
		}
	}
	return bounded(warnings)
}

// toolNamed returns a tool, or why the pods of a namespace can't have it.
func (i *Injector) toolNamed(namespace, name string) (Tool, Reason, error) {
	var offered []string
	for _, tool := range i.Tools {
		switch {
		case tool.Name != name:
			offered = append(offered, tool.Name)
		case !i.ToolRegistries.Allows(namespace, tool.Image):
			return tool, ReasonToolNotAllowed, fmt.Errorf("namespace %q can't have tool %q, because images of the registry or the repository of %q aren't allowed there; have the operator of entrypointer allow them",
				namespace, name, tool.Image)
		default:
			return tool, "", nil
		}
	}
	if offered == nil {
		return Tool{}, ReasonToolNotOffered, fmt.Errorf("there is no tool %q: the operator of entrypointer offers none", name)
	}
	slices.Sort(offered)
	return Tool{}, ReasonToolNotOffered, fmt.Errorf("there is no tool %q; the operator of entrypointer offers %s", name, text.Listed(offered, ", "))
}
