// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// UseSource says where this program's own source is: Kubernetes is built from
// a main package and a go.mod there.
func UseSource(dir string) error {
	kubernetesSource = filepath.Join(dir, "kubernetes")
	var texts []string
	for _, file := range []string{"go.mod", "main.go"} {
		text, err := os.ReadFile(filepath.Join(kubernetesSource, file))
		if err != nil {
			return fmt.Errorf("looking for what to build Kubernetes from: %w; run this in the directory test/cluster", err)
		}
		texts = append(texts, string(text))
	}
	Kubernetes.key = hash(texts...)
	return nil
}

var kubernetesSource string

// buildKubernetes builds one binary, and links the components' names to it.
func buildKubernetes(ctx context.Context, g golang, t Tool, into string) error {
	version := strings.Split(strings.TrimPrefix(t.Version, "v"), ".")
	const variable = "k8s.io/component-base/version."
	flags := ldflags(variable+"gitVersion="+t.Version, variable+"gitMajor="+version[0], variable+"gitMinor="+version[1])
	if err := g.run(ctx, kubernetesSource, "build", "-o", into, "-ldflags", flags, "."); err != nil {
		return err
	}
	for _, component := range t.Binaries[1:] {
		if err := os.Symlink(t.Binaries[0], filepath.Join(into, component)); err != nil {
			return err
		}
	}
	return nil
}

// corednsPlugins is plugin.cfg with what our Corefile uses. Their order is
// the one in CoreDNS' own file: queries pass through them in it.
const corednsPlugins = `
reload:reload
ready:ready
health:health
errors:errors
loadbalance:loadbalance
cache:cache
template:template
kubernetes:kubernetes
forward:forward
`

// buildCoreDNS builds it with fewer plugins, as its documentation says: edit
// plugin.cfg, and generate.
func buildCoreDNS(ctx context.Context, g golang, t Tool, into string) error {
	dir, err := g.copyModule(ctx, t.Name, "github.com/coredns/coredns", t.Version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "plugin.cfg"), []byte(corednsPlugins), 0o644); err != nil {
		return err
	}
	if err := g.run(ctx, dir, "run", "directives_generate.go"); err != nil {
		return err
	}
	return g.run(ctx, dir, "build", "-o", into, "-ldflags", ldflags(), ".")
}

// noDNSProviders takes the place of lego's list of DNS providers.
const noDNSProviders = `package dns

import (
	"fmt"

	"github.com/go-acme/lego/v4/challenge"
)

// NewDNSChallengeProviderByName knows no provider.
func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	return nil, fmt.Errorf("unrecognized DNS provider: %s", name)
}
`

// buildTraefik builds it without the clients of 150 DNS providers, which get
// certificates from an ACME server: they are most of what there is to compile,
// and a test cluster asks for no such certificate.
func buildTraefik(ctx context.Context, g golang, t Tool, into string) error {
	dir, err := g.copyModule(ctx, t.Name, "github.com/traefik/traefik/v3", t.Version)
	if err != nil {
		return err
	}
	const module, version = "github.com/go-acme/lego/v4", "v4.31.0"
	const copied = "lego" // beside Traefik's
	lego, err := g.copyModule(ctx, copied, module, version)
	if err != nil {
		return err
	}
	list := filepath.Join(lego, "providers", "dns", "zz_gen_dns_providers.go")
	if _, err := os.Stat(list); err != nil {
		return fmt.Errorf("leaving out DNS providers: %w; look for NewDNSChallengeProviderByName in %s", err, module)
	}
	if err := os.WriteFile(list, []byte(noDNSProviders), 0o644); err != nil {
		return err
	}
	if err := g.run(ctx, dir, "mod", "edit", "-replace", module+"=../"+copied); err != nil {
		return err
	}
	flags := ldflags("github.com/traefik/traefik/v3/pkg/version.Version=" + t.Version)
	return g.run(ctx, dir, "build", "-mod=mod", "-o", into, "-ldflags", flags, "./cmd/traefik")
}

// unusedDrivers matches what imports storage drivers that we don't use: the
// clients of three clouds.
var unusedDrivers = regexp.MustCompile(`(?m)^.*registry/storage/driver/(azure|gcs|s3-aws|middleware/cloudfront|middleware/redirect|middleware/rewrite|inmemory)".*\n`)

// buildRegistry builds it with the file system as the only storage driver.
func buildRegistry(ctx context.Context, g golang, t Tool, into string) error {
	dir, err := g.copyModule(ctx, t.Name, "github.com/distribution/distribution/v3", t.Version)
	if err != nil {
		return err
	}
	main := filepath.Join(dir, "cmd", "registry", "main.go")
	text, err := os.ReadFile(main)
	if err != nil {
		return err
	}
	if err := os.WriteFile(main, unusedDrivers.ReplaceAll(text, nil), 0o644); err != nil {
		return err
	}
	flags := ldflags("github.com/distribution/distribution/v3/version.version=" + t.Version)
	return g.run(ctx, dir, "build", "-o", into, "-ldflags", flags, "./cmd/registry")
}
