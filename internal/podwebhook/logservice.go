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
	"github.com/entrypointer/entrypointer/internal/optionalpart"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// logServicePatience limits the time of a check.
const logServicePatience = 5 * time.Second

// A logService knows the address of the log service, if there is one.
type logService struct {
	client  kubernetes.Interface
	logger  *zap.SugaredLogger
	current atomic.Pointer[endpoint.Endpoint]
}

// followLogService checks once before it returns, so that the first pods use the log
// service as well, and then periodically until ctx is done.
func followLogService(ctx context.Context, client kubernetes.Interface, logger *zap.SugaredLogger) *logService {
	l := &logService{client: client, logger: logger}
	l.look(ctx)
	go optionalpart.Every(ctx, optionalpart.Interval, nil, l.look)
	return l
}

// look updates the state of the log service. If the API server doesn't respond, or the
// response is invalid, the state stays.
func (l *logService) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, logServicePatience)
	defer cancel()
	before := l.current.Load()
	found, err := l.client.CoreV1().ConfigMaps(endpoint.Namespace).Get(ctx, endpoint.ConfigMap, metav1.GetOptions{})
	// config/logs grants the injector the right to read it, so Forbidden also means that
	// config/logs isn't installed.
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		if l.current.Store(nil); before != nil {
			l.logger.Infow("The log service is gone: the output of containers goes to the cluster's logs", zap.Error(err))
		}
		return
	}
	var now endpoint.Endpoint
	if err == nil {
		now, err = endpoint.FromConfigMap(found.Data)
	}
	if err != nil {
		l.logger.Warnw("Failed to look for the log service", zap.Error(err))
		return
	}
	if l.current.Store(&now); before == nil || *before != now {
		l.logger.Infow("Found the log service", zap.String("address", now.Address), zap.String("ip", now.IP), zap.String("ca", now.CA))
	}
}

// forPods returns the log service for pods, nil if there is none.
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
