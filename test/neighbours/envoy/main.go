// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Command envoy stands in for Envoy beside Istio's pilot-agent, as Envoy is no Go program that
// these tests could compile. The agent starts it, reads its statistics, and kills it. As
// Envoy, it passes the question whether the proxy is ready on to the agent.
//
// "envoy install PATH" copies the program to the path.
package main

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

// statistics are those by which the agent sees that Envoy has its configuration and works.
const statistics = `cluster_manager.cds.update_success: 1
listener_manager.lds.update_success: 1
listener_manager.workers_started: 1
server.state: 0
`

func main() {
	if len(os.Args) == 3 && os.Args[1] == "install" {
		if err := install(os.Args[2]); err != nil {
			log.Fatalf("installing the program: %v", err)
		}
		return
	}
	agent := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:15020"})
	admin := http.NewServeMux()
	admin.HandleFunc("GET /stats", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, statistics)
	})
	failed := make(chan error)
	go func() { failed <- listen("127.0.0.1:15000", admin) }()
	go func() { failed <- listen("127.0.0.1:15021", agent) }()
	log.Fatalf("serving: %v", <-failed)
}

func listen(address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

func install(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	source, err := os.Open(self)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
