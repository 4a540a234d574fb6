// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A system shows logs in a browser.
type system struct {
	name string
	// start starts its server, and returns the address of the page of the TaskRun.
	start func(ctx context.Context, c *cluster) (server *exec.Cmd, address string, err error)
	// row is a selector of the elements with a line each, and end a script that goes to the end, as
	// a reader would by the scroll bar.
	row, end string
}

// page is the page of the plugin.
func page(plugin string) system {
	return system{
		name: "`kubectl entrypointer ui`", row: ".log .r .t",
		end: `const s = document.querySelector(".log .scroller"); s.scrollIntoView({ block: "end" }); s.scrollTop = s.scrollHeight`,
		start: func(ctx context.Context, c *cluster) (*exec.Cmd, string, error) {
			config := filepath.Join(c.folder, "kubeconfig")
			text := fmt.Sprintf("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}], users: [{name: u, user: {}}], contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}\n", c.server.URL, c.authority())
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				return nil, "", err
			}
			server := exec.CommandContext(ctx, plugin, "ui", "--kubeconfig", config, "-n", namespace, "taskrun/"+taskRun)
			server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			out, err := server.StdoutPipe()
			if err != nil {
				return nil, "", err
			}
			if err := server.Start(); err != nil {
				return nil, "", err
			}
			address, err := bufio.NewReader(out).ReadString('\n')
			return server, strings.TrimSpace(address), err
		},
	}
}

// dashboard is Tekton Dashboard. It streams logs, or reads them at once.
func dashboard(program, files string, streams bool) system {
	s := system{
		name: "Dashboard", row: ".tkn--log-line--content",
		// A list of many lines has a scroll bar of its own.
		end: `const list = document.querySelector(".tkn--log-container > div"); if (list && list.scrollHeight > list.clientHeight) list.scrollTop = list.scrollHeight; window.scrollTo(0, document.documentElement.scrollHeight)`,
	}
	if !streams {
		s.name += " with `-stream-logs=false`"
	}
	s.start = func(ctx context.Context, c *cluster) (*exec.Cmd, string, error) {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, "", err
		}
		_, port, err := net.SplitHostPort(listener.Addr().String())
		_ = listener.Close() // so that the Dashboard can listen there
		if err != nil {
			return nil, "", err
		}
		host, apiPort, err := net.SplitHostPort(c.server.Listener.Addr().String())
		if err != nil {
			return nil, "", err
		}
		// What a pod has at these places.
		const prepare = `mount -t tmpfs bench /run && mkdir -p /run/ko /run/secrets/kubernetes.io/serviceaccount && mount --bind "$1" /run/ko &&
			cp "$2" /run/secrets/kubernetes.io/serviceaccount/ca.crt && echo token > /run/secrets/kubernetes.io/serviceaccount/token && shift 2 && exec "$@"`
		server := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", prepare, "sh", files, c.authority(), program, "-port", port, "-stream-logs="+strconv.FormatBool(streams), "-log-level", "error")
		server.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+apiPort, "INSTALLED_NAMESPACE=tekton-pipelines")
		server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := server.Start(); err != nil {
			return nil, "", err
		}
		base := "http://127.0.0.1:" + port
		return server, base + "/#/namespaces/" + namespace + "/taskruns/" + taskRun + "?step=" + step, await(ctx, base+"/health")
	}
	return s
}

// await waits until an address answers.
func await(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if err == nil && response.StatusCode < http.StatusInternalServerError {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", address, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
