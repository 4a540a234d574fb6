// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/autodelivery"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// grown is what the programs take with a number of objects.
type grown struct {
	Objects  int
	Ready    []time.Duration // from the start of the injector's process to its readiness, sorted
	Settled  time.Duration   // from the start until it was idle
	CPU      time.Duration   // until then
	Injector memory
	// APIServer is its resident memory, after a start with these objects.
	APIServer int64
	Etcd      int64 // bytes
	// EtcdOurs are the bytes of labels and grants of the new namespaces.
	EtcdOurs int64         `json:",omitempty"`
	Granted  time.Duration `json:",omitempty"` // for the namespaces that were new
	Created  time.Duration `json:",omitempty"`
	New      int           `json:",omitempty"` // objects since the row before
	// Change is the processor time of the injector for a change of one of the objects.
	Change time.Duration `json:",omitempty"`
}

// observe starts the programs with the objects that exist, and measures.
func (w *world) observe(ctx context.Context, objects int) (g grown, err error) {
	g.Objects = objects
	if err := w.stopInjector(ctx); err != nil {
		return g, err
	}
	if g.Etcd, err = w.etcdBytes(ctx); err != nil {
		return g, err
	}
	if err := w.restartAPIServer(ctx); err != nil {
		return g, err
	}
	for range w.plan.starts {
		ready, err := w.startInjector(ctx)
		if err != nil {
			return g, err
		}
		g.Ready = append(g.Ready, ready)
	}
	slices.Sort(g.Ready)
	if g.Settled, err = w.settle(ctx); err != nil {
		return g, err
	}
	used, err := w.injector.Usage()
	if err != nil {
		return g, err
	}
	g.CPU = used.CPU
	if g.Injector, err = w.injectorMemory(ctx); err != nil {
		return g, err
	}
	server, err := w.apiServer.Usage()
	g.APIServer = server.RSS
	return g, err
}

// beginWithInjector starts everything.
func (w *world) beginWithInjector(ctx context.Context) error {
	if err := w.begin(ctx); err != nil || w.injector != nil {
		return err
	}
	_, err := w.startInjector(ctx)
	return err
}

func measureNamespaces(ctx context.Context, w *world, f *figures) error {
	f.Namespaces = nil
	if err := w.beginWithInjector(ctx); err != nil {
		return err
	}
	before := 0
	for _, n := range w.plan.namespaces {
		former, err := w.etcdBytes(ctx)
		if err != nil {
			return err
		}
		if err := w.createNamespaces(ctx, "plain-", before, n, false); err != nil {
			return err
		}
		plain, err := w.etcdBytes(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := w.createNamespaces(ctx, "team-", before, n, true); err != nil {
			return err
		}
		created := time.Since(began)
		if err := awaitGrants(ctx, "team-", n); err != nil {
			return err
		}
		granted := time.Since(began)
		g, err := w.observe(ctx, n)
		if err != nil {
			return err
		}
		g.New, g.Created, g.Granted = n-before, created, granted
		// The new namespaces that opted in take as much without us as those that didn't.
		g.EtcdOurs = (g.Etcd - plain) - (plain - former)
		f.Namespaces = append(f.Namespaces, g)
		before = n
		if err := keepHeap(ctx, fmt.Sprint("namespaces-", n)); err != nil {
			return err
		}
	}
	return nil
}

// awaitGrants waits until each namespace with a prefix has its grant. The label comes first.
func awaitGrants(ctx context.Context, prefix string, n int) error {
	return framework.Eventually(ctx, settleLimit, fmt.Sprintf("the grants of %d namespaces", n), func(ctx context.Context) error {
		granted, err := countKeys(ctx, "/registry/rolebindings/"+prefix)
		if err == nil && granted < n {
			err = fmt.Errorf("%d have one", granted)
		}
		return err
	})
}

func measurePods(ctx context.Context, w *world, f *figures) error {
	f.Pods = nil
	const spread = 20 // namespaces
	if err := w.beginWithInjector(ctx); err != nil {
		return err
	}
	if err := w.createNamespaces(ctx, "pods-", 0, spread, true); err != nil {
		return err
	}
	if err := each(ctx, 0, spread, func(ctx context.Context, i int) error { return w.ensureAccount(ctx, fmt.Sprint("pods-", i)) }); err != nil {
		return err
	}
	before := 0
	for _, n := range w.plan.pods {
		began := time.Now()
		err := each(ctx, before, n, func(ctx context.Context, i int) error {
			p := taskRunPod(fmt.Sprint("run-", i), "")
			_, err := w.cluster.Kube.CoreV1().Pods(fmt.Sprint("pods-", i%spread)).Create(ctx, p, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		created := time.Since(began)
		g, err := w.observe(ctx, n)
		if err != nil {
			return err
		}
		g.New, g.Created = n-before, created
		f.Pods = append(f.Pods, g)
		before = n
	}
	return nil
}

func measureNodes(ctx context.Context, w *world, f *figures) error {
	f.Nodes = nil
	if err := w.beginWithInjector(ctx); err != nil {
		return err
	}
	if err := w.deliverBy(ctx, string(pod.DeliveryAuto)); err != nil {
		return err
	}
	if err := w.ensureAccount(ctx, framework.SystemNamespace); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	var kubelet sync.WaitGroup
	kubelet.Go(func() { w.runCanaries(running) })
	defer kubelet.Wait()
	defer stop()
	before := 0
	for _, n := range w.plan.nodes {
		began := time.Now()
		err := each(ctx, before, n, func(ctx context.Context, i int) error {
			_, err := w.cluster.Kube.CoreV1().Nodes().Create(ctx, node(fmt.Sprint("node-", i)), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		created := time.Since(began)
		g, err := w.observe(ctx, n)
		if err != nil {
			return err
		}
		g.New, g.Created = n-before, created
		if g.Change, err = w.changeNodes(ctx, min(n, changedNodes)); err != nil {
			return err
		}
		f.Nodes = append(f.Nodes, g)
		before = n
		if n > 0 {
			if err := w.awaitImageVolumes(ctx); err != nil {
				return err
			}
		}
		if err := keepHeap(ctx, fmt.Sprint("nodes-", n)); err != nil {
			return err
		}
	}
	return w.deliverBy(ctx, framework.InitContainer)
}

// awaitImageVolumes waits until the canary has proved that pods can mount images.
func (w *world) awaitImageVolumes(ctx context.Context) error {
	const asks = "nodes-opted-in"
	_, err := w.cluster.Kube.CoreV1().Namespaces().Create(ctx, namespace(asks, true), metav1.CreateOptions{})
	if err := ignoreExisting(err); err != nil {
		return err
	}
	if err := w.ensureAccount(ctx, asks); err != nil {
		return err
	}
	_, err = w.cluster.WaitForDelivery(ctx, asks, framework.ImageVolume)
	return err
}

// runCanaries does what a kubelet does with canaries: they succeed.
func (w *world) runCanaries(ctx context.Context) {
	pods := w.cluster.Kube.CoreV1().Pods(framework.SystemNamespace)
	for ctx.Err() == nil {
		for _, name := range autodelivery.Canaries {
			// Most of the time, there is none.
			_, _ = pods.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// changedNodes is the number of nodes that become unready and ready again.
const changedNodes = 200

// changeNodes makes nodes unready and ready again, and returns the processor time that a
// change takes the injector.
func (w *world) changeNodes(ctx context.Context, nodes int) (time.Duration, error) {
	if nodes == 0 {
		return 0, nil
	}
	before, err := w.injector.Usage()
	if err != nil {
		return 0, err
	}
	for _, ready := range []string{"False", "True"} {
		patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"` + ready + `"}]}}`)
		err := each(ctx, 0, nodes, func(ctx context.Context, i int) error {
			_, err := w.cluster.Kube.CoreV1().Nodes().Patch(ctx, fmt.Sprint("node-", i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	if _, err := w.settle(ctx); err != nil {
		return 0, err
	}
	after, err := w.injector.Usage()
	return (after.CPU - before.CPU) / time.Duration(2*nodes), err
}

// deliverBy sets how the supervisor gets into pods.
func (w *world) deliverBy(ctx context.Context, delivery string) error {
	_, err := w.cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Patch(ctx, config.Name, types.MergePatchType,
		[]byte(`{"data":{"delivery":"`+delivery+`"}}`), metav1.PatchOptions{})
	return err
}
