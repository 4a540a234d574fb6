// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestKubectlsFlagsSayWhichClusterAndUser(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := func(name string) string { return filepath.Join(directory, name) }
	for name, content := range map[string]string{
		"kubeconfig": `{"apiVersion":"v1","kind":"Config","current-context":"first",
			"clusters":[{"name":"first","cluster":{"server":"https://first"}},{"name":"second","cluster":{"server":"https://second"}}],
			"users":[{"name":"jane","user":{"token":"janes"}},{"name":"joe","user":{"token":"joes"}},{"name":"nobody","user":{}}],
			"contexts":[{"name":"first","context":{"cluster":"first","user":"jane","namespace":"tenant"}},
				{"name":"second","context":{"cluster":"second","user":"joe"}}]}`,
		"other": `{"apiVersion":"v1","kind":"Config","current-context":"c",
			"clusters":[{"name":"c","cluster":{"server":"https://other"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`,
		"pem": "",
	} {
		require.NoError(t, os.WriteFile(path(name), []byte(content), 0o600))
	}
	jane := rest.ImpersonationConfig{UserName: "jane", Extra: map[string][]string{}}
	for _, test := range []struct {
		args      []string
		namespace string
		change    func(*rest.Config)
	}{
		{nil, "tenant", func(*rest.Config) {}},
		{[]string{"--kubeconfig", path("other")}, "default", func(c *rest.Config) { c.Host, c.BearerToken = "https://other", "" }},
		{[]string{"--context=second"}, "default", func(c *rest.Config) { c.Host, c.BearerToken = "https://second", "joes" }},
		{[]string{"--cluster=second"}, "tenant", func(c *rest.Config) { c.Host = "https://second" }},
		{[]string{"--user=joe"}, "tenant", func(c *rest.Config) { c.BearerToken = "joes" }},
		{[]string{"--namespace=team-a"}, "team-a", func(*rest.Config) {}},
		{[]string{"-n", "team-a"}, "team-a", func(*rest.Config) {}},
		{[]string{"--server=https://third"}, "tenant", func(c *rest.Config) { c.Host = "https://third" }},
		{[]string{"-s", "https://third"}, "tenant", func(c *rest.Config) { c.Host = "https://third" }},
		{[]string{"--token=secret"}, "tenant", func(c *rest.Config) { c.BearerToken = "secret" }},
		{[]string{"--as=jane"}, "tenant", func(c *rest.Config) { c.Impersonate = jane }},
		{[]string{"--as=jane", "--as-uid=7"}, "tenant", func(c *rest.Config) { c.Impersonate = jane; c.Impersonate.UID = "7" }},
		{[]string{"--as=jane", "--as-group=a", "--as-group=b,c"}, "tenant", func(c *rest.Config) {
			c.Impersonate = jane
			c.Impersonate.Groups = []string{"a", "b,c"}
		}},
		{[]string{"--as=jane", "--as-user-extra=k=1", "--as-user-extra=k=2=3", "--as-user-extra=k"}, "tenant", func(c *rest.Config) {
			c.Impersonate = jane
			c.Impersonate.Extra = map[string][]string{"k": {"1", "2=3"}}
		}},
		{[]string{"--certificate-authority", path("pem")}, "tenant", func(c *rest.Config) { c.CAFile = path("pem") }},
		{[]string{"--insecure-skip-tls-verify"}, "tenant", func(c *rest.Config) { c.Insecure = true }},
		{[]string{"--tls-server-name=name"}, "tenant", func(c *rest.Config) { c.ServerName = "name" }},
		{[]string{"--user=nobody", "--client-certificate", path("pem"), "--client-key", path("pem")}, "tenant", func(c *rest.Config) {
			c.BearerToken, c.CertFile, c.KeyFile = "", path("pem"), path("pem")
		}},
		{[]string{"--request-timeout=5s"}, "tenant", func(c *rest.Config) { c.Timeout = 5 * time.Second }},
		{[]string{"--disable-compression"}, "tenant", func(c *rest.Config) { c.DisableCompression = true }},
	} {
		command := &cobra.Command{}
		flags := kubectlFlags(command)
		require.NoError(t, command.ParseFlags(append([]string{"--kubeconfig", path("kubeconfig")}, test.args...)), test.args)
		got, err := flags.config().ClientConfig()
		require.NoError(t, err, test.args)
		want := &rest.Config{Host: "https://first", BearerToken: "janes"}
		test.change(want)
		require.Equal(t, want, got, test.args)
		namespace, _, err := flags.config().Namespace()
		require.NoError(t, err, test.args)
		require.Equal(t, test.namespace, namespace, test.args)
	}
}
