// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/version"
)

// A helmRelease is what Helm has noted on the injector's Deployment, if Helm has installed it.
type helmRelease struct {
	once            sync.Once
	name, namespace string
}

// read reads the note, once.
func (h *helmRelease) read(ctx context.Context, q *inquiry) {
	h.once.Do(func() {
		var deployment metav1.PartialObjectMetadata
		if err := q.get(ctx, "/apis/apps/v1/namespaces/"+objects.InjectorNamespace+"/deployments/injector", &deployment); err != nil {
			return // another check says so
		}
		h.name = deployment.Annotations["meta.helm.sh/release-name"]
		h.namespace = deployment.Annotations["meta.helm.sh/release-namespace"]
	})
}

// applies returns the command by which a part becomes that of this program's version: of a
// release, the file or the chart in its folder, and else of a checkout.
func (q *inquiry) applies(ctx context.Context, part string) string {
	if q.chart.read(ctx, q); q.chart.name != "" && version.IsRelease(q.own) {
		return objects.Command("helm upgrade %s entrypointer-%s.tgz --namespace %s --reset-then-reuse-values", q.chart.name, strings.TrimPrefix(q.own, "v"), q.chart.namespace)
	}
	return version.Applies(q.own, part)
}
