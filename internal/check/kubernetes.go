// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// leastKubernetes is the oldest version whose API server the injector can use.
const leastKubernetes = "1.34.0"

// platforms are those that .ko.yaml builds images for.
var platforms = []string{"linux/amd64", "linux/arm64"}

func checkVersion(ctx context.Context, q *inquiry) answer {
	var info struct{ GitVersion string }
	if err := q.get(ctx, "/version", &info); err != nil {
		return hinderedAnswer(err, "the API server's version", "get /version")
	}
	parsed, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return found(Unknown, fmt.Sprintf("reading the API server's version %q: %v", info.GitVersion, err), "")
	}
	if parsed.LessThan(version.MustParseGeneric(leastKubernetes)) {
		return found(Failed, fmt.Sprintf("the API server has Kubernetes %s, and the injector needs %s", info.GitVersion, leastKubernetes), "")
	}
	return passed(info.GitVersion)
}

// checkNodes compares the platforms of the nodes with those of the images.
func checkNodes(ctx context.Context, q *inquiry) (a answer) {
	count := map[string]int{}
	err := q.list(ctx, "/api/v1/nodes", "", func(node metav1.PartialObjectMetadata) {
		count[node.Labels[corev1.LabelOSStable]+"/"+node.Labels[corev1.LabelArchStable]]++
	})
	if err != nil {
		return hinderedAnswer(err, "the platform of the nodes", "list nodes")
	}
	var notes []string
	for platform, nodes := range count {
		notes = append(notes, fmt.Sprintf("%d of %s", nodes, platform))
		switch {
		case strings.HasPrefix(platform, "windows/"):
			// Pods that can run on Windows only stay as they are.
		case !slices.Contains(platforms, platform):
			a.add(Warning, fmt.Sprintf("%d of the nodes have the platform %s, and ko builds images for %s only, unless KO_DEFAULTPLATFORMS names others: wrapped pods can't start there", nodes, platform, strings.Join(platforms, " and ")), "")
		}
	}
	slices.Sort(notes)
	a.note = strings.Join(notes, ", ")
	return a
}
