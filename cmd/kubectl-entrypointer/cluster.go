// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
)

// A cluster is what kubectl's flags say about the API server, its user and the namespace.
type cluster struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	userExtra []string // KEY=VALUE
}

// kubectlFlags adds the flags by which kubectl finds a cluster to a command. Those of
// k8s.io/cli-runtime would link kustomize and the types of all APIs.
func kubectlFlags(command *cobra.Command) *cluster {
	c := &cluster{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	c.rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	c.overrides.ClusterDefaults = clientcmd.ClusterDefaults

	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	// API servers take no passwords any more, and kubectl has no flag for a proxy.
	var none clientcmd.FlagInfo
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password, names.ClusterOverrideFlags.ProxyURL = none, none, none

	flags := command.Flags()
	clientcmd.BindOverrideFlags(&c.overrides, flags, names)
	flags.StringVar(&c.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "Path to the kubeconfig file to use for CLI requests.")
	flags.StringArrayVar(&c.userExtra, "as-user-extra", nil, "User extras to impersonate for the operation, this flag can be repeated to specify multiple values for the same key.")
	return c
}

// config returns what the flags and the kubeconfig say together.
func (c *cluster) config() clientcmd.ClientConfig {
	overrides := c.overrides
	for _, extra := range c.userExtra {
		key, value, ok := strings.Cut(extra, "=")
		if !ok {
			continue // as kubectl does
		}
		if overrides.AuthInfo.ImpersonateUserExtra == nil {
			overrides.AuthInfo.ImpersonateUserExtra = map[string][]string{}
		}
		overrides.AuthInfo.ImpersonateUserExtra[key] = append(overrides.AuthInfo.ImpersonateUserExtra[key], value)
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &overrides)
}

// connect finds the cluster and the namespace as kubectl does.
func (c *cluster) connect() (*objects.Client, error) {
	found := c.config()
	config, err := found.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	namespace, _, err := found.Namespace()
	if err != nil {
		return nil, fmt.Errorf("finding the namespace: %w", err)
	}
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return nil, &usageError{fmt.Errorf("%q is no name of a namespace: %s", namespace, wrong[0])}
	}
	return objects.NewClient(config, namespace)
}

// oneObject is the check of the arguments of a command about one object.
func oneObject(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{errors.New("name one object, as TYPE/NAME")}
	}
	return nil
}

// connectFor parses what a user names, and connects.
func (c *cluster) connectFor(named string) (target.Target, *objects.Client, error) {
	t, err := target.Parse(named, target.All())
	if err != nil {
		return t, nil, &usageError{err}
	}
	client, err := c.connect()
	return t, client, err
}

// parseAll parses the objects that a user names.
func parseAll(named []string) (all []target.Target, _ error) {
	for _, name := range named {
		t, err := target.Parse(name, target.All())
		if err != nil {
			return nil, &usageError{err}
		}
		all = append(all, t)
	}
	return all, nil
}
