// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package delivery finds out whether pods can mount images as volumes: what
// "delivery: auto" asks.
//
// A node can if its versions say so, and if a node like it has done so: for each
// system (kubelet, runtime, OS image, architecture) the leader of the injector's
// replicas runs a short-lived pod of ours, a canary, which mounts the images of
// the supervisor and runs it from there. What that proved is remembered in a
// ConfigMap. Each replica watches the nodes and the ConfigMap by itself, and
// judges anew with each change:
//
//	nodes -> questions -> proofs -> verdict
//
// The rights that it takes are an optional part of the installation, config/auto.
package delivery

import (
	"context"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Auto knows whether pods can mount the images.
type Auto struct {
	current atomic.Pointer[Verdict]
	absent  atomic.Bool
	// asked is sent to when somebody asks for it, or ceases to.
	asked chan struct{}

	mu       sync.Mutex
	evidence evidence
	logger   *zap.SugaredLogger // nil before there is a controller
	wake     func()             // has the leader look; nil likewise
}

// New returns an Auto that says no until its controller runs.
func New(images Images) *Auto {
	a := &Auto{asked: make(chan struct{}, 1), evidence: evidence{images: images, asking: map[string]bool{}, nodes: map[string]node{}}}
	a.update(func(*evidence) {})
	return a
}

// Verdict is the one in force. It takes no lock.
func (a *Auto) Verdict() Verdict { return *a.current.Load() }

// Absent says that config/auto isn't installed, rather than not looked for yet.
func (a *Auto) Absent() bool { return a.absent.Load() }

// Configure tells which configuration is in force.
func (a *Auto) Configure(c *config.Config) {
	a.update(func(e *evidence) { e.configured = c.Policy.Delivery == pod.Auto })
	a.hurry()
}

// namespaceHandler takes over which namespaces ask for auto themselves.
func (a *Auto) namespaceHandler(injectors string) cache.ResourceEventHandler {
	learn := func(object any) {
		if ns, ok := object.(*corev1.Namespace); ok {
			asked, err := pod.NamespaceDelivery(ns.Annotations)
			a.learnAsking(ns.Name, err == nil && asked == pod.Auto && config.OptsIn(ns, injectors))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    learn,
		UpdateFunc: func(_, object any) { learn(object) },
		DeleteFunc: func(object any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				a.learnAsking(name, false)
			}
		},
	}
}

// learnAsking takes over whether a namespace asks, or does nothing if that isn't new.
func (a *Auto) learnAsking(namespace string, asks bool) {
	same := false
	a.read(func(e *evidence) { same = e.asking[namespace] == asks })
	if same {
		return
	}
	a.update(func(e *evidence) {
		if delete(e.asking, namespace); asks {
			e.asking[namespace] = true
		}
	})
	a.hurry()
}

// hurry has the follower look at once.
func (a *Auto) hurry() {
	select {
	case a.asked <- struct{}{}:
	default: // it is about to
	}
}

// update changes the evidence, and judges anew.
func (a *Auto) update(change func(*evidence)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.evidence)
	before, now := a.current.Load(), a.evidence.judge()
	a.current.Store(&now)
	if a.logger != nil && (before == nil || *before != now) {
		a.logger.Infow("Decided how the supervisor gets into pods", zap.String("reason", string(now.Reason)), zap.Stringer("verdict", now))
	}
	if a.wake != nil {
		a.wake()
	}
}

// read lets look at the evidence.
func (a *Auto) read(look func(*evidence)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	look(&a.evidence)
}

// learnProofs takes over what the ConfigMap says.
func (a *Auto) learnProofs(cm *corev1.ConfigMap) {
	known := readProofs(cm.Data)
	a.update(func(e *evidence) { e.proofs = known })
}

// updateDuring changes what a watch has told, unless it has been ended.
func (a *Auto) updateDuring(watching context.Context, change func(*evidence)) {
	a.update(func(e *evidence) {
		if watching.Err() == nil {
			change(e)
		}
	})
}

// learnNode takes a node over, or does nothing if there is nothing new: kubelets
// report all the time.
func (a *Auto) learnNode(watching context.Context, n node) {
	same := false
	a.read(func(e *evidence) { same = e.nodes[n.name] == n })
	if !same {
		a.updateDuring(watching, func(e *evidence) { e.nodes[n.name] = n })
	}
}
