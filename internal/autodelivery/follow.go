// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/entrypointer/entrypointer/internal/optionalpart"
)

// lookPatience limits the time of a check.
const lookPatience = 5 * time.Second

// A follower watches the nodes, while that is wanted and permitted. Started with the
// injector, an informer without permission would prevent the injector's start.
type follower struct {
	auto   *Auto
	client kubernetes.Interface
	// version returns the API server's version.
	version func(context.Context) (string, error)
	logger  *zap.SugaredLogger

	stop context.CancelFunc // ends the watch; nil if there is none
}

// follow checks until ctx is done.
func (f *follower) follow(ctx context.Context) {
	f.look(ctx)
	optionalpart.Every(ctx, optionalpart.Interval, f.auto.asked, f.look)
	f.end() // the last admissions get the delivery that works everywhere
}

// look starts or ends the watch, and reads the API server's version. If the API server
// doesn't respond, the state stays.
func (f *follower) look(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	_, err := f.client.CoreV1().Nodes().List(asking, metav1.ListOptions{Limit: 1})
	forbidden, wanted := apierrors.IsForbidden(err), false
	if err == nil || forbidden {
		f.auto.absent.Store(forbidden)
		f.auto.update(func(e *evidence) { e.permitted = !forbidden })
	}
	f.auto.read(func(e *evidence) { wanted = e.wanted() })
	if forbidden || !wanted {
		f.end()
		return
	}
	if err != nil {
		f.logger.Warnw("Failed to check whether the injector may watch nodes", zap.Error(err))
		return
	}
	server, err := f.version(asking)
	if err != nil {
		f.logger.Warnw("Failed to read the API server's version", zap.Error(err))
	}
	if err == nil {
		f.auto.update(func(e *evidence) { e.server = server })
	}
	if f.stop == nil {
		f.start(ctx)
	}
}

// end ends the watch, if there is one, and forgets the nodes.
func (f *follower) end() {
	if f.stop == nil {
		return
	}
	f.stop()
	f.stop = nil
	f.auto.update(func(e *evidence) { e.synced, e.nodes = false, map[string]node{} })
}

// start starts the watch. While the watch is interrupted, the known nodes stay.
func (f *follower) start(ctx context.Context) {
	watching, cancel := context.WithCancel(ctx)
	nodes := informers.NewSharedInformerFactory(f.client, 0).Core().V1().Nodes().Informer()
	// An ended watch is restarted; the next check notices a failure.
	quietly := func(_ context.Context, _ *cache.Reflector, err error) {
		f.logger.Debugw("Watching nodes", zap.Error(err))
	}
	if err := nodes.SetWatchErrorHandlerWithContext(quietly); err != nil {
		f.logger.Errorw("Failed to prepare the watch of nodes", zap.Error(err))
	}
	if err := nodes.SetTransform(slim); err != nil {
		f.logger.Errorw("Failed to prepare the watch of nodes", zap.Error(err))
	}
	handler, err := nodes.AddEventHandler(f.handler(watching))
	if err != nil {
		cancel()
		f.logger.Errorw("Watching nodes", zap.Error(err))
		return
	}
	f.stop = cancel
	go nodes.RunWithContext(watching)
	go func() {
		if cache.WaitForCacheSync(watching.Done(), handler.HasSynced) {
			f.auto.updateDuring(watching, func(e *evidence) { e.synced = true })
		}
	}()
}

func (f *follower) handler(watching context.Context) cache.ResourceEventHandler {
	learn := func(object any) {
		if n, ok := object.(*corev1.Node); ok {
			f.auto.learnNode(watching, nodeOf(n))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    learn,
		UpdateFunc: func(_, object any) { learn(object) },
		DeleteFunc: func(object any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				f.auto.updateDuring(watching, func(e *evidence) { delete(e.nodes, name) })
			}
		},
	}
}

// serverVersion returns a function that reads the API server's version.
func serverVersion(client kubernetes.Interface) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		text, err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return "", err
		}
		var said version.Info
		if err := json.Unmarshal(text, &said); err != nil {
			return "", fmt.Errorf("parsing the API server's version: %w", err)
		}
		return said.GitVersion, nil
	}
}
