// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package autodelivery determines whether pods can mount images as volumes, for "delivery:
// auto".
//
// A node can mount images if its versions support it, and if a node like it has proved
// it: for each system (kubelet, runtime, OS image, architecture), the leader of the
// injector's replicas runs a short-lived pod, a canary, which mounts the supervisor's
// images and runs the supervisor from there. A ConfigMap stores the proofs. Each replica
// watches the nodes and the ConfigMap by itself, and updates its verdict with each
// change:
//
//	nodes -> questions -> proofs -> verdict
//
// The necessary rights are an optional part of the installation, config/auto.
package autodelivery

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
	// asked receives a value when a namespace begins or ceases to ask for auto.
	asked chan struct{}

	mu       sync.Mutex
	evidence evidence
	logger   *zap.SugaredLogger // nil before the controller exists
	wake     func()             // triggers the leader's reconciliation; nil before the controller exists
}

// New returns an Auto whose verdict is negative until its controller runs.
func New(images Images) *Auto {
	a := &Auto{asked: make(chan struct{}, 1), evidence: evidence{images: images, asking: map[string]bool{}, nodes: map[string]node{}}}
	a.update(func(*evidence) {})
	return a
}

// Verdict returns the verdict in force. It takes no lock.
func (a *Auto) Verdict() Verdict { return *a.current.Load() }

// Absent reports whether a check has found that config/auto isn't installed.
func (a *Auto) Absent() bool { return a.absent.Load() }

// Configure notes the configuration in force.
func (a *Auto) Configure(c *config.Config) {
	a.update(func(e *evidence) { e.configured = c.Policy.Delivery == pod.DeliveryAuto })
	a.triggerCheck()
}

// namespaceHandler notes which namespaces ask for auto themselves.
func (a *Auto) namespaceHandler(injectors string) cache.ResourceEventHandler {
	learn := func(object any) {
		if ns, ok := object.(*corev1.Namespace); ok {
			asked, err := pod.NamespaceDelivery(ns.Annotations)
			a.learnAsking(ns.Name, err == nil && asked == pod.DeliveryAuto && config.OptsIn(ns, injectors))
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

// learnAsking notes whether a namespace asks, and does nothing without a change.
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
	a.triggerCheck()
}

// triggerCheck triggers a check of the follower.
func (a *Auto) triggerCheck() {
	select {
	case a.asked <- struct{}{}:
	default: // a check is already due
	}
}

// update changes the evidence, and updates the verdict.
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

// read calls look with the evidence, under the lock.
func (a *Auto) read(look func(*evidence)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	look(&a.evidence)
}

// learnProofs notes the proofs in the ConfigMap.
func (a *Auto) learnProofs(cm *corev1.ConfigMap) {
	known := readProofs(cm.Data)
	a.update(func(e *evidence) { e.proofs = known })
}

// updateDuring updates the evidence from a watch, unless the watch has been ended.
func (a *Auto) updateDuring(watching context.Context, change func(*evidence)) {
	a.update(func(e *evidence) {
		if watching.Err() == nil {
			change(e)
		}
	})
}

// learnNode notes a node, and does nothing without a change, because kubelets report all
// the time.
func (a *Auto) learnNode(watching context.Context, n node) {
	same := false
	a.read(func(e *evidence) { same = e.nodes[n.name] == n })
	if !same {
		a.updateDuring(watching, func(e *evidence) { e.nodes[n.name] = n })
	}
}
