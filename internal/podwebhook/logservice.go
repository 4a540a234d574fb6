// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/look"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// logServicePatience is how long a look may take.
const logServicePatience = 5 * time.Second

// A logService knows where the log service is, if there is one.
type logService struct {
	client  kubernetes.Interface
	logger  *zap.SugaredLogger
	current atomic.Pointer[endpoint.Endpoint]
}

// followLogService looks once before it returns, so that the first pods are told of
// it as well, and goes on to look until ctx is done.
func followLogService(ctx context.Context, client kubernetes.Interface, logger *zap.SugaredLogger) *logService {
	l := &logService{client: client, logger: logger}
	l.look(ctx)
	go look.Again(ctx, look.Interval, nil, l.look)
	return l
}

// look finds the log service, or that there is none. An API server that doesn't
// answer, or an answer that can't be understood, changes nothing.
func (l *logService) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, logServicePatience)
	defer cancel()
	before := l.current.Load()
	found, err := l.client.CoreV1().ConfigMaps(endpoint.Namespace).Get(ctx, endpoint.ConfigMap, metav1.GetOptions{})
	// What it may not read, config/logs would have let it.
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		if l.current.Store(nil); before != nil {
			l.logger.Infow("The log service is gone: what containers print goes to the cluster's logs", zap.Error(err))
		}
		return
	}
	var now endpoint.Endpoint
	if err == nil {
		now, err = endpoint.FromConfigMap(found.Data)
	}
	if err != nil {
		l.logger.Warnw("Looking for the log service", zap.Error(err))
		return
	}
	if l.current.Store(&now); before == nil || *before != now {
		l.logger.Infow("Found the log service", zap.String("address", now.Address), zap.String("ip", now.IP), zap.String("ca", now.CA))
	}
}

// forPods is what pods are told of the log service, nil if there is none.
func (l *logService) forPods(images Images) *pod.LogService {
	now := l.current.Load()
	if now == nil {
		return nil
	}
	return &pod.LogService{
		Address: now.Address, IP: now.IP, CA: now.CA, Audience: endpoint.Audience,
		CopierImage: images.CopierWithLogs, EntrypointImage: images.EntrypointWithLogs,
	}
}
