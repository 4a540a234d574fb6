// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package equality

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rule is why an example can't run here.
type Rule string

// The rules, in the order in which they are tried.
const (
	Resolver         Rule = "gets a task, a pipeline or a step through a `resolver`"
	ForeignImage     Rule = "needs an image that is not available in the test cluster"
	OtherNode        Rule = "needs a node that the test cluster doesn't have, by its `nodeSelector`"
	UnknownKind      Rule = "creates an object of a kind that the test cluster doesn't have"
	OutsideNamespace Rule = "creates a cluster-scoped object"
	Refused          Rule = "is refused by Tekton with the test cluster's configuration"
)

// Rules are all of them.
var Rules = []Rule{Resolver, ForeignImage, OtherNode, UnknownKind, OutsideNamespace, Refused}

// Skipped is the rule that keeps an example from running, and what it is about.
type Skipped struct {
	Rule   Rule
	Detail string
}

// ClusterCapabilities is what a cluster has that an example may ask for.
type ClusterCapabilities struct {
	Images map[string]string   // references, by kind: the last element of a repository's path
	Nodes  []map[string]string // labels
	// Scope tells whether objects of a kind are in namespaces, and whether the
	// cluster has them at all.
	Scope func(schema.GroupVersionKind) (namespaced, served bool)
}

// prepare replaces the images of an example, and tells whether it can run.
func (h ClusterCapabilities) prepare(objects []*unstructured.Unstructured) *Skipped {
	if resolver := find(objects, "resolver"); len(resolver) > 0 {
		return &Skipped{Resolver, fmt.Sprint(resolver[0])}
	}
	if foreign := h.replaceImages(objects); len(foreign) > 0 {
		return &Skipped{ForeignImage, strings.Join(foreign, ", ")}
	}
	for _, selector := range find(objects, "nodeSelector") {
		if labels, ok := selector.(map[string]any); ok && !h.hasNode(labels) {
			return &Skipped{OtherNode, fmt.Sprint(labels)}
		}
	}
	for _, object := range objects {
		namespaced, served := h.Scope(object.GroupVersionKind())
		if !served {
			return &Skipped{UnknownKind, object.GetKind()}
		}
		if !namespaced {
			return &Skipped{OutsideNamespace, object.GetKind()}
		}
	}
	return nil
}

func (h ClusterCapabilities) hasNode(selector map[string]any) bool {
	return slices.ContainsFunc(h.Nodes, func(node map[string]string) bool {
		for key, value := range selector {
			if node[key] != value {
				return false
			}
		}
		return true
	})
}

// parameter is an image that comes from a parameter.
var parameter = regexp.MustCompile(`^\$\(params\.([^)]+)\)$`)

// replaceImages replaces every image, also where it is the value of a parameter
// that says which image a step uses. It returns those that it can't replace.
func (h ClusterCapabilities) replaceImages(objects []*unstructured.Unstructured) (foreign []string) {
	replace := func(fields map[string]any, key string) {
		reference, ok := fields[key].(string)
		if !ok {
			return
		}
		if local, ok := h.Images[kind(reference)]; ok {
			fields[key] = local
		} else if !slices.Contains(foreign, reference) {
			foreign = append(foreign, reference)
		}
	}
	parameters := map[string]bool{}
	visit(objects, func(fields map[string]any) {
		image, _ := fields["image"].(string)
		if match := parameter.FindStringSubmatch(image); match != nil {
			parameters[match[1]] = true
			return
		}
		replace(fields, "image")
	})
	visit(objects, func(fields map[string]any) {
		params, _ := fields["params"].([]any)
		for _, param := range params {
			if param, ok := param.(map[string]any); ok && parameters[fmt.Sprint(param["name"])] {
				replace(param, "value")
				replace(param, "default")
			}
		}
	})
	return foreign
}

var (
	tagOrDigest = regexp.MustCompile(`(:[^:/@]+)?(@.*)?$`)
	koSuffix    = regexp.MustCompile(`-[0-9a-f]{32}$`) // a hash of the import path
)

// kind is what sort of image a reference is to: the last element of the
// repository's path, wherever it is, whatever its version.
func kind(reference string) string {
	repository := tagOrDigest.ReplaceAllString(reference, "")
	return koSuffix.ReplaceAllString(repository[strings.LastIndex(repository, "/")+1:], "")
}

// find returns the values of a field, wherever it is.
func find(objects []*unstructured.Unstructured, field string) (values []any) {
	visit(objects, func(fields map[string]any) {
		if value, ok := fields[field]; ok {
			values = append(values, value)
		}
	})
	return values
}

// visit shows every map in the objects, in an order that is always the same.
func visit(objects []*unstructured.Unstructured, see func(map[string]any)) {
	var walk func(any)
	walk = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			see(node)
			for _, key := range slices.Sorted(maps.Keys(node)) {
				walk(node[key])
			}
		case []any:
			for _, value := range node {
				walk(value)
			}
		}
	}
	for _, object := range objects {
		walk(object.Object)
	}
}
