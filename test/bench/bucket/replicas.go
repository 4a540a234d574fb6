// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/test/loopback"
	"github.com/entrypointer/entrypointer/test/program"
	"github.com/entrypointer/entrypointer/test/shipping"
)

// A cluster is some replicas of the log service, as processes, on a store.
type cluster struct {
	*store
	programs string
	api      *apiServer
	replicas []*replica
}

// A replica is a process that serves the API of pods and of readers, and metrics.
type replica struct {
	*program.Process
	shipping.Service

	probes string
}

// connections is how many a client has to a replica at most. Those from one address are
// bounded by the service.
const connections = 900

// startCluster starts a store, and replicas with limits as in the ConfigMap of the service.
func startCluster(ctx context.Context, programs string, latency time.Duration, replicas int, limits map[string]string) (_ *cluster, err error) {
	c := &cluster{programs: programs, replicas: make([]*replica, replicas)}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.store, err = startStore(ctx, programs, latency); err != nil {
		return nil, err
	}
	if c.api, err = startAPIServer(ctx, limits); err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.kubeconfig(), []byte(c.api.kubeconfig()), 0o600); err != nil {
		return nil, err
	}
	for i := range c.replicas {
		if err := c.startReplica(ctx, i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.directory, "kubeconfig") }

func (c *cluster) close() {
	for _, r := range c.replicas {
		if r != nil {
			r.Kill()
		}
	}
	if c.api != nil {
		c.api.close()
	}
	if c.store != nil {
		c.store.close()
	}
}

// location is the bucket, behind the proxy.
func (c *cluster) location() string {
	return "s3://" + bucketName + "?" + url.Values{"region": {"us-east-1"}, "endpoint": {"http://" + c.proxy.address}, "use_path_style": {"true"}}.Encode()
}

// startReplica starts a replica with the environment that config/logs gives it.
func (c *cluster) startReplica(ctx context.Context, i int) error {
	var addresses [3]string
	for n := range addresses {
		var err error
		if addresses[n], err = loopback.FreeAddress(ctx); err != nil {
			return err
		}
	}
	environment := []string{"GOMEMLIMIT=400MiB", "AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey}
	p, err := start(ctx, filepath.Join(c.directory, fmt.Sprintf("logs%d.log", i)), environment, filepath.Join(c.programs, "logs"),
		"-kubeconfig", c.kubeconfig(), "-bucket", c.location(), "-listen", addresses[0], "-listen-proxied", addresses[1], "-probes", addresses[2])
	if err != nil {
		return err
	}
	r := &replica{Process: p, probes: "http://" + addresses[2]}
	c.replicas[i] = r
	err = await(ctx, p, "the log service", func(ctx context.Context) error {
		_, err := get(ctx, r.probes+"/readyz")
		if err == nil && c.api.published() == nil {
			err = errors.New("it hasn't published its address")
		}
		return err
	})
	if err != nil {
		return err
	}
	service, err := endpoint.FromConfigMap(c.api.published())
	if err != nil {
		return err
	}
	trusting, err := service.TLS()
	if err != nil {
		return err
	}
	r.Service = shipping.Service{URL: service.Address, Client: client(trusting, addresses[0])}
	return nil
}

// client returns a client of a replica, whose name leads to an address.
func client(trusting *tls.Config, address string) *http.Client {
	return &http.Client{
		Timeout: shipping.RequestTimeout,
		Transport: &http.Transport{
			TLSClientConfig: trusting, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute, DisableCompression: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, address)
			},
		},
	}
}

// sweeps returns how many sweeps a replica has ended, and what it has changed in them.
func (r *replica) sweeps(ctx context.Context) (count, changes float64, err error) {
	text, err := get(ctx, r.probes+"/metrics")
	return metric(text, "entrypointer_logs_keeper_duration_seconds_count"),
		metric(text, "entrypointer_logs_keeper_joined_total") + metric(text, "entrypointer_logs_keeper_deleted_total") + metric(text, "entrypointer_logs_keeper_removed_streams_total"), err
}

// restWithin bounds the time of the sweeps of a replica.
const restWithin = 20 * time.Minute

// stop stops all replicas.
func (c *cluster) stop() error {
	for i, r := range c.replicas {
		if r != nil {
			if err := r.Stop(); err != nil {
				return err
			}
			c.replicas[i] = nil
		}
	}
	return nil
}

// sweepAfter lets time pass, and has replicas sweep twice, one after another, as they do over
// days: the second sweep is the first one that knows the limits. It returns how many objects
// and streams they have changed. No replica runs afterwards.
func (c *cluster) sweepAfter(ctx context.Context, passed time.Duration) (changes float64, err error) {
	if err := errors.Join(c.stop(), c.age(passed)); err != nil { // what a replica notes at its end is older as well
		return 0, err
	}
	for i := range c.replicas {
		if err := c.startReplica(ctx, i); err != nil {
			return 0, err
		}
		r := c.replicas[i]
		var changed float64
		_, err := r.Await(ctx, "a sweep", restWithin, func(ctx context.Context) (err error) {
			var count float64
			if count, changed, err = r.sweeps(ctx); err == nil && count < 2 {
				err = fmt.Errorf("it has swept %v times", count)
			}
			return err
		})
		if err := errors.Join(err, r.Stop()); err != nil {
			return 0, err
		}
		c.replicas[i] = nil
		changes += changed
	}
	return changes, nil
}

// settle lets time pass, and has the replicas sweep, until nothing is left to be joined and
// no copy to be deleted.
func (c *cluster) settle(ctx context.Context) error {
	for range maxSettling {
		if changes, err := c.sweepAfter(ctx, settleStep); err != nil || changes == 0 {
			return err
		}
	}
	return fmt.Errorf("joining objects: there is no end of it after %d rounds", maxSettling)
}

const (
	// settleStep is more than the time after which objects are joined, and copies deleted.
	settleStep  = 15 * time.Minute
	maxSettling = 20
)
