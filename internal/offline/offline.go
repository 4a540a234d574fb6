// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package offline decides on pods as the injector does, without a cluster: for the kubectl
// plugin, which shows what would be changed in them.
package offline

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// maxConfig bounds a file with the configuration, in bytes: an API server takes no
// ConfigMap above 1 MiB.
const maxConfig = 4 << 20

// Options are what an injector in a cluster knows by itself.
type Options struct {
	// Config is the operator's configuration; nil stands for the default.
	Config *config.Config
	// Annotations are those of the namespace.
	Annotations map[string]string
	// CopierImage and EntrypointImage are the injector's images, which differ from install to
	// install.
	CopierImage, EntrypointImage string
}

// ReadConfig reads a ConfigMap in YAML or JSON. An invalid value is an error: an injector
// would have a safe one in force, and say so in its log.
func ReadConfig(from io.Reader) (*config.Config, error) {
	document, err := io.ReadAll(io.LimitReader(from, maxConfig))
	if err != nil {
		return nil, err
	}
	var cm corev1.ConfigMap
	if err := yaml.UnmarshalStrict(document, &cm); err != nil {
		return nil, fmt.Errorf("it is no ConfigMap: %w", err)
	}
	if cm.Kind != "ConfigMap" {
		return nil, fmt.Errorf("it is no ConfigMap, but of kind %q", cm.Kind)
	}
	return config.FromConfigMap(&cm)
}

// Inject decides on a pod that is created in a namespace of this name. A *pod.Refusal is an
// error, as in a cluster.
func (o Options) Inject(ctx context.Context, namespace string, p *corev1.Pod) (pod.Result, error) {
	current := o.Config
	if current == nil {
		current = config.ValidOf(&corev1.ConfigMap{})
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: o.Annotations}}
	scope, err := pod.NamespaceScope(o.Annotations)
	if err != nil {
		return pod.Result{}, err
	}
	if scope == pod.NoPods {
		return pod.Result{Outcome: pod.NotOptedIn, Pod: p}, nil
	}
	lookups := current.Lookup
	lookups.AllowLoopback = true // it is the user's own machine
	lookuper, err := lookup.New(keychain, lookups, current.LookupTimeout)
	if err != nil {
		return pod.Result{}, fmt.Errorf("preparing lookups: %w", err)
	}
	injector := current.Injector(ns)
	if injector.Policy.Delivery == pod.DeliveryAuto || injector.Policy.Delivery == pod.DeliveryClaim {
		// Whether nodes mount images, and whether there is a claim, only the cluster knows.
		injector.Policy.Delivery = pod.DeliveryInitContainer
	}
	injector.CopierImage, injector.EntrypointImage, injector.Lookup = o.CopierImage, o.EntrypointImage, lookuper
	ctx, cancel := context.WithTimeout(ctx, current.LookupTimeout)
	defer cancel()
	return injector.Inject(ctx, namespace, p)
}

// keychain has the credentials of the user, as docker and podman keep them. Those of pods
// are in a cluster.
func keychain(_ context.Context, _ lookup.Query, repository authn.Resource) iter.Seq2[authn.Authenticator, error] {
	return func(yield func(authn.Authenticator, error) bool) {
		users, err := authn.DefaultKeychain.Resolve(repository)
		if users != authn.Anonymous && !yield(users, err) {
			return
		}
		yield(authn.Anonymous, nil)
	}
}
