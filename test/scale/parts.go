// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/autodelivery"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/test/framework"
)

// A plan is the extent of a run.
type plan struct {
	namespaces []int // opted in, and as many that aren't
	pods       []int
	nodes      []int
	starts     int // of which the time is the median

	rates     []int         // admissions a second
	loadLasts time.Duration // a load of reviews
	block     time.Duration // a block of creations
	pairs     int           // of blocks
	least     int           // requests of a load
	images    []int
}

var whole = plan{
	namespaces: []int{0, 1000, 10_000}, pods: []int{0, 10_000, 50_000}, nodes: []int{0, 1000, 5000}, starts: 5,
	rates: []int{1, 50, 200, 500}, loadLasts: 15 * time.Second, block: 3 * time.Second, pairs: 6, least: 20, images: []int{1000, 100_000},
}

// brief takes two to three minutes.
var brief = plan{
	namespaces: []int{0, 200, 1000}, pods: []int{0, 2000}, nodes: []int{0, 500}, starts: 1,
	rates: []int{50, 200}, loadLasts: 2 * time.Second, block: time.Second, pairs: 3, least: 20, images: []int{500, 1500},
}

// settleLimit is the time in which the injector has to have done its work.
const settleLimit = 10 * time.Minute

// A part measures the growth with one kind of objects. The objects of former parts stay.
type part struct {
	name    string
	measure func(context.Context, *world, *figures) error
}

var parts = []part{
	{"namespaces", measureNamespaces},
	{"nodes", measureNodes},
	{"creations", measureCreations},
	{"reviews", measureReviews},
	{"images", measureImages},
	{"pods", measurePods},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func (p part) chosen(only string) bool {
	return only == "" || slices.Contains(strings.Split(only, ","), p.name)
}

func checkParts(only string) error {
	for name := range strings.SplitSeq(only, ",") {
		if only != "" && !slices.Contains(partNames(), name) {
			return fmt.Errorf("choosing parts: there is no part %q; name some of %s", name, strings.Join(partNames(), ", "))
		}
	}
	return nil
}

// figures are what was measured. Times are in nanoseconds.
type figures struct {
	Short      bool
	Date       string
	Namespaces []grown     `json:",omitempty"`
	Pods       []grown     `json:",omitempty"`
	Nodes      []grown     `json:",omitempty"`
	Creations  []created   `json:",omitempty"`
	Reviews    []loaded    `json:",omitempty"`
	Images     []imagesRow `json:",omitempty"`
}

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
	if g.Settled, err = w.injector.settle(ctx, settleLimit); err != nil {
		return g, err
	}
	used, err := w.injector.usage()
	if err != nil {
		return g, err
	}
	g.CPU = used.CPU
	if g.Injector, err = w.injectorMemory(ctx); err != nil {
		return g, err
	}
	server, err := w.apiServer.usage()
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
		if err := awaitGrants(ctx, n); err != nil {
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
		if err := keepProfile(ctx, fmt.Sprint("namespaces-", n)); err != nil {
			return err
		}
	}
	return nil
}

// awaitGrants waits until each namespace that opted in has its grant. The label comes first.
func awaitGrants(ctx context.Context, n int) error {
	return framework.Eventually(ctx, settleLimit, fmt.Sprintf("the grants of %d namespaces", n), func(ctx context.Context) error {
		granted, err := countKeys(ctx, "/registry/rolebindings/team-")
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
	if err := w.deliverBy(ctx, "auto"); err != nil {
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
		if err := keepProfile(ctx, fmt.Sprint("nodes-", n)); err != nil {
			return err
		}
	}
	return w.deliverBy(ctx, "init-container")
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
	before, err := w.injector.usage()
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
	if _, err := w.injector.settle(ctx, settleLimit); err != nil {
		return 0, err
	}
	after, err := w.injector.usage()
	return (after.CPU - before.CPU) / time.Duration(2*nodes), err
}

// deliverBy sets how the supervisor gets into pods.
func (w *world) deliverBy(ctx context.Context, delivery string) error {
	_, err := w.cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Patch(ctx, config.Name, types.MergePatchType,
		[]byte(`{"data":{"delivery":"`+delivery+`"}}`), metav1.PatchOptions{})
	return err
}
