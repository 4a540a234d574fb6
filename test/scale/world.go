// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/entrypointer/entrypointer/config"
	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/program"
)

const (
	etcdURL      = "http://127.0.0.1:2379"
	apiServerURL = "https://" + address + ":6443"
	adminToken   = "scale" // nobody else can reach the API server
	webhookPort  = 8443

	webhookAddress = address + ":8443"

	apiServerCertificate, apiServerKey = "apiserver.crt", "apiserver.key"
)

// A world is the API server with its etcd, the injector, and what they contain.
type world struct {
	directory string
	plan      plan

	etcd, apiServer, injector, logs *program.Process
	cluster                         *framework.Cluster
	admin                           *http.Client
	starts                          int    // of the injector
	compacted                       string // the revision to which etcd was compacted
}

// begin starts etcd and the API server, and installs what config/webhook, config/auto and
// config/claims install, without a Deployment: the injector is a process of this program.
func (w *world) begin(ctx context.Context) error {
	if w.cluster != nil {
		return nil
	}
	if err := writeKeys(w.directory); err != nil {
		return err
	}
	data := filepath.Join(w.directory, "etcd-data")
	err := os.RemoveAll(data) // of a part that failed
	if err != nil {
		return err
	}
	w.etcd, err = w.start(etcdProgram, nil,
		"--data-dir="+data,
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380", "--quota-backend-bytes=8589934592",
		"--unsafe-no-fsync", "--log-level=warn")
	if err != nil {
		return err
	}
	if _, err := await(ctx, w.etcd, http.DefaultClient, get(etcdURL+"/health")); err != nil {
		return err
	}
	if err := w.connect(); err != nil {
		return err
	}
	if err := w.startAPIServer(ctx); err != nil {
		return err
	}
	return w.install(ctx)
}

// startAPIServer starts the API server.
func (w *world) startAPIServer(ctx context.Context) error {
	in := func(name string) string { return filepath.Join(w.directory, name) }
	var err error
	w.apiServer, err = w.start(apiServerProgram, nil,
		"--etcd-servers="+etcdURL, "--advertise-address="+address, "--bind-address="+address, "--secure-port=6443",
		"--tls-cert-file="+in(apiServerCertificate), "--tls-private-key-file="+in(apiServerKey), "--token-auth-file="+in("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+in("service-accounts.key"),
		"--service-account-signing-key-file="+in("service-accounts.key"), "--service-cluster-ip-range=10.96.0.0/16",
		// Webhooks are called at the addresses of their Services' endpoints, because there is no kube-proxy.
		"--enable-aggregator-routing", "--allow-privileged")
	if err != nil {
		return err
	}
	_, err = await(ctx, w.apiServer, w.admin, get(apiServerURL+"/readyz"))
	return err
}

// connect makes the administrator's clients.
func (w *world) connect() (err error) {
	config := &rest.Config{
		Host: apiServerURL, BearerToken: adminToken, QPS: -1, WarningHandler: rest.NoWarnings{}, Timeout: time.Minute,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(w.directory, apiServerCertificate)},
	}
	c := &framework.Cluster{Config: config}
	if w.admin, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	if c.Kube, err = kubernetes.NewForConfigAndClient(config, w.admin); err != nil {
		return err
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, w.admin); err != nil {
		return err
	}
	w.cluster = c
	return nil
}

// get returns a function that makes a GET request.
func get(url string) func(context.Context) (*http.Request, error) {
	return func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	}
}

// writeKeys writes the administrator's token, the API server's certificate, and the key
// that signs tokens of service accounts.
func writeKeys(directory string) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey(address, nil, nil)
	if err != nil {
		return fmt.Errorf("making the certificate of the API server: %w", err)
	}
	signing, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("making the key of service accounts: %w", err)
	}
	for name, content := range map[string][]byte{
		apiServerCertificate: certificate, apiServerKey: key, "service-accounts.key": signing,
		"tokens.csv": []byte(adminToken + ",admin,admin,system:masters\n"),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// install creates the objects of config/webhook, config/auto and config/claims, and what lets
// the API server find the injector's process.
func (w *world) install(ctx context.Context) error {
	if err := w.installFrom(ctx, "webhook/*.yaml", "auto/*.yaml", "claims/*.yaml"); err != nil {
		return err
	}
	ready, port, name := true, int32(webhookPort), "https-webhook"
	_, err := w.cluster.Kube.DiscoveryV1().EndpointSlices(framework.SystemNamespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "injector", Labels: map[string]string{discoveryv1.LabelServiceName: framework.WebhookService}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("giving the injector's Service an endpoint: %w", err)
	}
	// The memory of the injector is read from its profiling server.
	_, err = w.cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Patch(ctx, "config-observability", "application/merge-patch+json",
		[]byte(`{"data":{"runtime-profiling":"enabled"}}`), metav1.PatchOptions{})
	return err
}

// installFrom creates the objects of manifests, but for those of the programs: these are
// processes of this one.
func (w *world) installFrom(ctx context.Context, patterns ...string) error {
	for _, pattern := range patterns {
		files, err := fs.Glob(config.Manifests, pattern)
		if err != nil {
			return err
		}
		for _, file := range files {
			if strings.HasPrefix(path.Base(file), "500-") {
				continue
			}
			if err := w.apply(ctx, file); err != nil {
				return fmt.Errorf("installing %s: %w", file, err)
			}
		}
	}
	return nil
}

// ourImages are the images that ko builds. Policies let the injector run no others.
var ourImages = regexp.MustCompile(`ko://\S+`)

func (w *world) apply(ctx context.Context, file string) error {
	text, err := config.Manifests.ReadFile(file)
	if err != nil {
		return err
	}
	objects, err := framework.Decode(ourImages.ReplaceAll(text, []byte(noImage)))
	if err != nil {
		return err
	}
	for _, object := range objects {
		// The API server creates some of what these depend on when it has started.
		what := fmt.Sprintf("%s %q to be created", object.GetKind(), object.GetName())
		if err := framework.Eventually(ctx, time.Minute, what, func(ctx context.Context) error {
			return ignoreExisting(w.cluster.Create(ctx, object.GetNamespace(), object))
		}); err != nil {
			return err
		}
	}
	return nil
}

// ensureAccount creates the service account that pods of a namespace have: there is no
// controller that does.
func (w *world) ensureAccount(ctx context.Context, namespace string) error {
	_, err := w.cluster.Kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	return ignoreExisting(err)
}

// askEtcd posts a request to etcd's gateway.
func askEtcd(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, etcdURL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("asking etcd: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking etcd: %s answers %s", r.URL, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// countKeys returns the number of objects whose keys in etcd have a prefix.
func countKeys(ctx context.Context, prefix string) (int, error) {
	var found struct {
		Count int `json:"count,string"`
	}
	err := askEtcd(ctx, "/v3/kv/range", map[string]any{"key": []byte(prefix), "range_end": []byte(prefix + "\xff"), "count_only": true}, &found)
	return found.Count, err
}

// etcdBytes returns the size of what etcd stores, without former revisions.
func (w *world) etcdBytes(ctx context.Context) (int64, error) {
	var status struct {
		Header      struct{ Revision string }
		DBSizeInUse int64 `json:"dbSizeInUse,string"`
	}
	if err := askEtcd(ctx, "/v3/maintenance/status", struct{}{}, &status); err != nil {
		return 0, err
	}
	if status.Header.Revision != w.compacted { // etcd refuses to do it twice
		var nothing any
		if err := askEtcd(ctx, "/v3/kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, &nothing); err != nil {
			return 0, err
		}
		w.compacted = status.Header.Revision
	}
	err := askEtcd(ctx, "/v3/maintenance/status", struct{}{}, &status)
	return status.DBSizeInUse, err
}

// restartAPIServer starts the API server again, so that its memory is that of what exists.
func (w *world) restartAPIServer(ctx context.Context) error {
	w.apiServer.Kill()
	return w.startAPIServer(ctx)
}

// running returns the processes that run.
func (w *world) running() (all []*program.Process) {
	for _, p := range []*program.Process{w.logs, w.injector, w.apiServer, w.etcd} {
		if p.Runs() {
			all = append(all, p)
		}
	}
	return all
}

// end ends all processes.
func (w *world) end() {
	for _, p := range w.running() {
		p.Kill()
	}
}
