// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

func TestAddressesThatMayBeConnectedTo(t *testing.T) {
	services := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10:96::/112")}
	const always, unlessNamed, never = "always", "unless the operator names it", "never"
	for address, test := range map[string]struct{ byDefault, publicOnly string }{
		"93.184.216.34":        {always, always},
		"2606:2800:220:1::1":   {always, always},
		"10.1.2.3":             {always, unlessNamed},
		"192.168.0.1":          {always, unlessNamed},
		"172.16.0.1":           {always, unlessNamed},
		"100.64.0.1":           {always, unlessNamed},
		"fd12::1":              {always, unlessNamed},
		"::ffff:10.1.2.3":      {always, unlessNamed},
		"64:ff9b::a01:203":     {always, unlessNamed}, // 10.1.2.3, translated
		"64:ff9b::5db8:d822":   {always, always},      // 93.184.216.34: how an IPv6-only cluster reaches it
		"2002:5db8:d822::1":    {always, always},
		"10.96.0.1":            {unlessNamed, unlessNamed},
		"10.111.255.255":       {unlessNamed, unlessNamed},
		"fd00:10:96::1":        {unlessNamed, unlessNamed},
		"64:ff9b::a60:1":       {unlessNamed, unlessNamed}, // 10.96.0.1
		"127.0.0.1":            {never, never},
		"127.8.8.8":            {never, never},
		"::1":                  {never, never},
		"::ffff:127.0.0.1":     {never, never},
		"64:ff9b::7f00:1":      {never, never},
		"2002:7f00:1::1":       {never, never},
		"0.0.0.0":              {never, never},
		"::":                   {never, never},
		"0.1.2.3":              {never, never},
		"169.254.169.254":      {never, never},
		"64:ff9b::a9fe:a9fe":   {never, never},
		"64:ff9b:1::a9fe:a9fe": {never, never},
		"fe80::1":              {never, never},
		"fe80::1%eth0":         {never, never},
		"192.0.0.192":          {never, never},
		"100.100.100.200":      {never, never},
		"168.63.129.16":        {never, never},
		"fd00:ec2::254":        {never, never},
		"fd20:ce::254":         {never, never},
		"224.0.0.1":            {never, never},
		"ff02::1":              {never, never},
		"255.255.255.255":      {never, never},
		"240.0.0.1":            {never, never},
		"::7f00:1":             {never, never},
	} {
		t.Run(address, func(t *testing.T) {
			for publicOnly, want := range map[bool]string{false: test.byDefault, true: test.publicOnly} {
				options := lookup.Options{Services: services, ForbidPrivateAddresses: publicOnly}
				ip := netip.MustParseAddr(address)
				require.Equal(t, want == always, options.CheckAddress(ip, false) == nil, "public only: %v", publicOnly)
				require.Equal(t, want != never, options.CheckAddress(ip, true) == nil, "public only: %v, named by the operator", publicOnly)
			}
		})
	}
}

// Whatever the name, it is the address that counts.
func TestAnAddressThatMayNotBeConnectedToIsNotAsked(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	server.Manifests.Store(0)
	server.Heads.Store(0)
	port := server.Host[strings.LastIndex(server.Host, ":"):]
	asked, err := lookup.New(anonymous, lookup.Options{}, ample)
	require.NoError(t, err)
	for _, image := range []string{
		server.Image("app"), "localhost" + port + "/app", "[::1]" + port + "/app", "[::ffff:7f00:1]" + port + "/app",
		"0.0.0.0" + port + "/app", "169.254.169.254/app", "[fe80::1]:5000/app",
	} {
		_, err := asked.Lookup(t.Context(), lookup.Query{Image: image})
		registrytest.RequireReason(t, err, lookup.NotAllowed, "address", "is not allowed")
	}
	require.Zero(t, server.Manifests.Load()+server.Heads.Load())
}

func TestARegistryThatTheOperatorNamesMayHaveAnyAddressOfARegistry(t *testing.T) {
	for name, options := range map[string]lookup.Options{
		"allowed":                 {Allowed: lookup.AllowList{Everywhere: patterns(t, "10.96.0.10:5000")}},
		"allowed, with others":    {Allowed: lookup.AllowList{Everywhere: patterns(t, "*", "10.96.0.10:5000")}},
		"allowed for a namespace": {Allowed: lookup.AllowList{Namespaces: map[string][]lookup.Pattern{"a": patterns(t, "10.96.0.10:5000/team")}}},
		"a mirror":                {Mirrors: lookup.Mirrors{"index.docker.io": {"10.96.0.10:5000/hub"}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, options.Trusts("10.96.0.10:5000"))
			require.False(t, options.Trusts("10.96.0.10:6379"), "another service at the same address")
			require.False(t, options.Trusts("10.96.0.10:443"))
		})
	}
	wild := lookup.Options{Allowed: lookup.AllowList{Everywhere: patterns(t, "*", "*.example")}}
	require.False(t, wild.Trusts("a.example:443"))
}

func TestARegistryThatIsNamedWithoutAPortIsAtTheDefaultPorts(t *testing.T) {
	options := lookup.Options{
		Allowed: lookup.AllowList{Everywhere: patterns(t, "registry.tools.svc", "[fd12::1]")},
		Mirrors: lookup.Mirrors{"index.docker.io": {"Mirror.tools.svc/hub"}},
	}
	for address, trusted := range map[string]bool{
		"registry.tools.svc:443": true, "registry.tools.svc:80": true, "registry.tools.svc:6379": false,
		"[fd12::1]:443": true, "[fd12::1]:80": true, "[fd12::1]:9200": false,
		"mirror.tools.svc:443": true, "mirror.tools.svc:5000": false,
	} {
		require.Equal(t, trusted, options.Trusts(address), address)
	}
}

func TestAProxyIsTrustedAtItsOwnPort(t *testing.T) {
	t.Setenv("HTTP_PROXY", "proxy.tools.svc:3128")
	t.Setenv("HTTPS_PROXY", "https://tls-proxy.tools.svc")
	for address, trusted := range map[string]bool{
		"proxy.tools.svc:3128": true, "proxy.tools.svc:6379": false, "proxy.tools.svc:80": false,
		"tls-proxy.tools.svc:443": true, "tls-proxy.tools.svc:80": false,
	} {
		require.Equal(t, trusted, lookup.Options{}.Trusts(address), address)
	}
}

// The address of a Service has a port for each thing that it serves.
func TestAnotherPortOfARegistryThatTheOperatorNamesIsAServiceLikeAnyOther(t *testing.T) {
	options := lookup.Options{
		Allowed:  lookup.AllowList{Everywhere: patterns(t, "*", "10.96.0.10:5000")},
		Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
	}
	asked, err := lookup.New(anonymous, options, ample)
	require.NoError(t, err)
	_, err = asked.Lookup(t.Context(), lookup.Query{Image: "10.96.0.10:6379/app"})
	registrytest.RequireReason(t, err, lookup.NotAllowed, "address 10.96.0.10 of a service of this cluster")
}

// A registry sends us elsewhere in two ways: by a redirect, and by naming a
// token server.
func TestARegistryLeadsNowhereThatItMayNot(t *testing.T) {
	victim := registrytest.New(t)
	reached := false
	victim.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		reached = true
		_, _ = w.Write([]byte(`{"password":"hunter2"}`))
		return true
	}
	elsewhere := "http://localhost" + victim.Host[strings.LastIndex(victim.Host, ":"):]
	redirect := func(when func(*http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !when(r) {
				return false
			}
			http.Redirect(w, r, elsewhere+"/secrets", http.StatusTemporaryRedirect)
			return true
		}
	}
	has := func(part string) func(*http.Request) bool {
		return func(r *http.Request) bool { return strings.Contains(r.URL.Path, part) }
	}
	for name, intercept := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"a ping that is redirected":     redirect(func(*http.Request) bool { return true }),
		"a manifest that is redirected": redirect(has("/manifests/")),
		"a config that is redirected":   redirect(has("/blobs/")),
		"a token server": func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+elsewhere+`/secrets",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		},
		"a token server after a redirect": func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/token") {
				return redirect(has("/token"))(w, r)
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := registrytest.New(t)
			registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
			server.Intercept, reached = intercept, false
			_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
			registrytest.RequireReason(t, err, lookup.NotAllowed, "without TLS is not allowed")
			require.NotContains(t, err.Error(), "hunter2")
			require.False(t, reached)
		})
	}
}
