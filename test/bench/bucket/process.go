// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
