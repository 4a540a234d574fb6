// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/program"
)

// startLimit is what a program may take to start.
const startLimit = time.Minute

// A source is a program that is compiled here.
type source struct{ directory, pkg string } // the directory of its module, in the repository

var (
	service   = source{".", "./cmd/logs"}
	versitygw = source{"test/stores/versitygw", "."}
	loki      = source{"test/destinations/loki", "github.com/grafana/loki/v3/cmd/loki"}
)

// build compiles a program.
func (s source) build(ctx context.Context, path string) error {
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(top, filepath.FromSlash(s.directory)), "-o", path, s.pkg)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running %q: %w: %.2000s", command.Args, err, out)
	}
	return nil
}

// start starts a program that ends with this one.
func start(ctx context.Context, output string, environment []string, path string, arguments ...string) (*program.Process, error) {
	command := exec.CommandContext(ctx, path, arguments...)
	command.Env = append(os.Environ(), environment...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return program.Start(command, output)
}

// await waits until a program does something, within the time that it may take to start.
func await(ctx context.Context, p *program.Process, what string, try func(context.Context) error) error {
	_, err := p.Await(ctx, what, startLimit, try)
	return err
}

const (
	// The ports that free chooses from. Linux gives connections ports from 32768 on
	// (net.ipv4.ip_local_port_range), so none of them takes a port before its program listens.
	lowestPort, ports = 20_000, 12_768
	portTries         = 20
)

// chosenPorts is how many ports free has chosen, from a random one on. No port is chosen
// twice, because programs that start at the same time don't listen yet.
var chosenPorts atomic.Int64

func init() { chosenPorts.Store(rand.Int64N(ports)) } //nolint:gosec // G404: it is no secret

// free returns an address on which nobody listens.
func free(ctx context.Context) (string, error) {
	var errs []error
	for range portTries {
		port := lowestPort + chosenPorts.Add(1)%ports
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return listener.Addr().String(), listener.Close()
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("looking for a port on which nobody listens: %w", errors.Join(errs...))
}

// get returns the body of a response 200.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("asking %s: %s: %.300s", url, response.Status, body)
	}
	return string(body), err
}

// metric returns the value of a metric without labels in Prometheus' text, 0 without.
func metric(text, name string) float64 {
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			number, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return number
		}
	}
	return 0
}
