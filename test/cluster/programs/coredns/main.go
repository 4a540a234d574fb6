// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// The coredns program is CoreDNS with the plugins that our Corefile uses.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/template"
)

// A query passes through the plugins in this order, which is that of CoreDNS'
// own plugin.cfg.
func init() {
	dnsserver.Directives = []string{
		"reload", "ready", "health", "errors", "loadbalance", "cache", "template", "kubernetes", "forward",
	}
}

func main() { coremain.Run() }
