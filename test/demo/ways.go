// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/claims"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// claimExample says what the claim is like that is mounted.
const claimExample = "delivery/claim.yaml"

// A way is another delivery than the operator's, and the namespace that asks for it.
type way struct{ delivery, namespace string }

// otherWays are those that the cluster has.
func otherWays(cluster *framework.Cluster) (ways []way, _ error) {
	images, err := cluster.HasImageVolumes()
	if err != nil {
		return nil, err
	}
	if images {
		ways = append(ways, way{framework.ImageVolume, optedIn + "-image-volume"})
	}
	if os.Getenv(framework.SharedClassVariable) != "" {
		ways = append(ways, way{framework.Claim, optedIn + "-claim"})
	}
	return ways, nil
}

// wayResult is what became of the example.
type wayResult struct {
	way
	result
	status         string // the annotation
	initContainers []string
}

func (w way) run(ctx context.Context, cluster *framework.Cluster) (wayResult, error) {
	if w.delivery == framework.Claim {
		if err := w.describeClaim(ctx, cluster); err != nil {
			return wayResult{}, err
		}
	}
	if _, err := cluster.WaitForDelivery(ctx, w.namespace, w.delivery); err != nil {
		return wayResult{}, err
	}
	objects, err := framework.Example(ctx, byWays.file)
	if err != nil {
		return wayResult{}, err
	}
	if err := cluster.Create(ctx, w.namespace, objects...); err != nil {
		return wayResult{}, err
	}
	wrapped, err := byWays.finish(ctx, cluster, w.namespace)
	if err != nil {
		return wayResult{}, err
	}
	p, err := cluster.PodOf(ctx, w.namespace, "tekton.dev/taskRun="+objects[0].GetName())
	if err != nil {
		return wayResult{}, err
	}
	r := wayResult{way: w, result: result{example: byWays, wrapped: wrapped}, status: p.Annotations[pod.StatusAnnotation]}
	for _, c := range p.Spec.InitContainers {
		r.initContainers = append(r.initContainers, c.Name)
	}
	return r, nil
}

// describeClaim says that the claim is to be of the class that all nodes can mount.
func (w way) describeClaim(ctx context.Context, cluster *framework.Cluster) error {
	objects, err := framework.Example(ctx, claimExample)
	if err != nil {
		return err
	}
	volume := objects[0]
	err = unstructured.SetNestedField(volume.Object, os.Getenv(framework.SharedClassVariable), "spec", "volumeClaimTemplate", "spec", "storageClassName")
	if err != nil {
		return fmt.Errorf("naming a storage class in %s: %w", claimExample, err)
	}
	text, err := json.Marshal(volume)
	if err != nil {
		return fmt.Errorf("writing %s: %w", claimExample, err)
	}
	_, err = cluster.Dynamic.Resource(claims.Resource).Namespace(w.namespace).
		Patch(ctx, claims.Name, types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "demo", Force: new(true)})
	if err != nil {
		return fmt.Errorf("applying %s: %w; ko apply -f config/claims installs what it takes", claimExample, err)
	}
	return nil
}

// claims are that the supervisor came in this way, and that nothing else differs.
func (r wayResult) claims() []claim {
	status := string(pod.Injected) + " by " + r.delivery
	all := append([]claim{{
		holds: r.status == status,
		text:  pod.StatusAnnotation + ": " + status,
		but:   fmt.Sprintf("it says %q", r.status),
	}, {
		holds: !slices.Contains(r.initContainers, pod.InitContainerName),
		text:  "no init container of ours",
		but:   fmt.Sprintf("there are %q", r.initContainers),
	}}, claimsOfRun(r.result)...)
	for _, wrapped := range r.wrapped.containers {
		all = append(all, together(wrapped.name, claimsOfContainer(find(r.plain.containers, wrapped.name), wrapped)))
	}
	return all
}

// together is one claim for all about a container.
func together(container string, claims []claim) claim {
	one := claim{holds: true, text: container + " is wrapped and the same"}
	var but []string
	for _, c := range claims {
		if !c.holds {
			one.holds = false
			but = append(but, c.text+"? "+c.but)
		}
	}
	one.but = strings.Join(but, "; ")
	return one
}

// showWays prints the results, and returns how many claims there were and how many
// don't hold.
func showWays(out *terminal, results []wayResult) (claimed, failed int) {
	for _, r := range results {
		out.heading(r.example.title+" by "+r.delivery, "examples/"+r.example.file)
		out.command("$ kubectl annotate namespace " + r.namespace + " " + pod.DeliveryAnnotation + "=" + r.delivery)
		claims := r.claims()
		failed += out.claims("  ", claims)
		claimed += len(claims)
	}
	return claimed, failed
}
