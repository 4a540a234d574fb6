// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/entrypointer/entrypointer/config"
	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/program"
)

const (
	deploymentFile = "webhook/500-injector.yaml"

	profiles   = "http://127.0.0.1:8008/debug/pprof/"
	profileURL = profiles + "heap?debug=1&gc=1"
	// noImage is the image of the supervisor, which no node pulls here.
	noImage = "registry.example/supervisor@sha256:0000000000000000000000000000000000000000000000000000000000000000"
)

// probing is the client of the kubelet's probes, which verify no certificate.
var probing = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
	DisableKeepAlives: true,
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}, //nolint:gosec // as the kubelet does
}}

func probe(ctx context.Context) (*http.Request, error) {
	r, err := get("https://" + webhookAddress + "/")(ctx)
	if err == nil {
		r.Header.Set("User-Agent", "kube-probe/1.36")
	}
	return r, err
}

// startInjector starts the injector as its Deployment does, with the rights of its service
// account, on one core. It returns the time until it was ready: until the readiness probe
// of its Deployment succeeds.
func (w *world) startInjector(ctx context.Context) (ready time.Duration, err error) {
	if err := w.stopInjector(ctx); err != nil {
		return 0, err
	}
	kubeconfig, err := w.kubeconfig(ctx, framework.SystemNamespace, "injector")
	if err != nil {
		return 0, err
	}
	w.starts++
	environment, err := environmentOfDeployment()
	if err != nil {
		return 0, err
	}
	environment = append(environment, "SYSTEM_NAMESPACE="+framework.SystemNamespace, fmt.Sprint("POD_NAME=injector-", w.starts))
	w.injector, err = onCore(func() (*program.Process, error) {
		return w.start(injectorProgram, environment, "-kubeconfig", kubeconfig, "-copier-image", noImage, "-entrypoint-image", noImage,
			"-copier-with-logs-image", noImage, "-entrypoint-with-logs-image", noImage)
	})
	if err != nil {
		return 0, err
	}
	return await(ctx, w.injector, probing, probe)
}

// environmentOfDeployment returns the variables that have the same value in each of the
// Deployment's pods.
func environmentOfDeployment() (variables []string, _ error) {
	text, err := config.Manifests.ReadFile(deploymentFile)
	if err != nil {
		return nil, err
	}
	objects, err := framework.Decode(text)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		var deployment appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			return nil, fmt.Errorf("reading %s: %w", deploymentFile, err)
		}
		for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
			if variable.ValueFrom == nil {
				variables = append(variables, variable.Name+"="+variable.Value)
			}
		}
	}
	return variables, nil
}

// kubeconfig writes a file with the token of a service account.
func (w *world) kubeconfig(ctx context.Context, namespace, account string) (string, error) {
	day := int64((24 * time.Hour).Seconds())
	token, err := w.cluster.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making a token of service account %q: %w", account, err)
	}
	path := filepath.Join(w.directory, account+".kubeconfig")
	return path, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: apiServerURL, CertificateAuthority: filepath.Join(w.directory, apiServerCertificate)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"i": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "i"}},
		CurrentContext: "x",
	}, path)
}

// stopInjector kills the injector, and removes the leases of which it is the holder, so
// that the next one needn't wait until they have expired.
func (w *world) stopInjector(ctx context.Context) error {
	w.injector.Kill()
	w.injector = nil
	err := w.cluster.Kube.CoordinationV1().Leases(framework.SystemNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("removing the injector's leases: %w", err)
	}
	return nil
}

// A memory is what a process holds.
type memory struct {
	// Heap is what is reachable after a garbage collection, in bytes.
	Heap int64
	// RSS is the resident memory then, and Highest its maximum since the start, in bytes.
	RSS, Highest int64
}

// injectorMemory reads the memory after two garbage collections: the first may end one
// that runs.
func (w *world) injectorMemory(ctx context.Context) (m memory, err error) {
	for range 2 {
		if m.Heap, err = heapAfterCollection(ctx); err != nil {
			return m, err
		}
	}
	used, err := w.injector.Usage()
	m.RSS, m.Highest = used.RSS, used.HighestRSS
	return m, err
}

// heapAfterCollection has the injector collect garbage, and returns the bytes of its heap.
func heapAfterCollection(ctx context.Context) (int64, error) {
	r, err := get(profileURL)(ctx)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, fmt.Errorf("reading the injector's heap: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	heap, err := heapOf(response.Body)
	if err != nil {
		return 0, fmt.Errorf("reading the injector's heap: %w", err)
	}
	return heap, nil
}

// heapOf returns the bytes of the heap that a profile tells at its end.
func heapOf(profile io.Reader) (int64, error) {
	for lines := bufio.NewScanner(profile); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "# HeapAlloc = "); ok {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, errors.New("the profile has no line # HeapAlloc")
}

// webhookCA returns the certificates that verify the injector's.
func (w *world) webhookCA(ctx context.Context) (*x509.CertPool, error) {
	webhook, err := w.cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, framework.PodWebhook, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the webhook's CA: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(webhook.Webhooks[0].ClientConfig.CABundle)
	return pool, nil
}

func ignoreExisting(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
