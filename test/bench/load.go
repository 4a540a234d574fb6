// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// askers is how many service accounts create pods whose image is looked up.
	askers = 20
	// atOnce bounds the reviews in flight.
	atOnce = 200
)

// load is how one replica bore a load.
type load struct {
	rate     int // admissions a second, as asked for
	duration time.Duration
	times    []time.Duration // of the reviews, sorted
	failed   int
	peak     int64 // bytes of memory, working set
}

// loadOneReplica sends reviews to the only replica of the injector, at a rate,
// while its memory is watched. Afterwards there are two again.
func loadOneReplica(ctx context.Context, cluster *framework.Cluster, rate int, duration time.Duration) (result load, err error) {
	reviews, err := mixedReviews()
	if err != nil {
		return load{}, err
	}
	node, name, err := leaveOne(ctx, cluster)
	defer func() { err = errors.Join(err, restore(context.WithoutCancel(ctx), cluster)) }()
	if err != nil {
		return load{}, err
	}
	post, err := poster(ctx, cluster)
	if err != nil {
		return load{}, err
	}
	for _, review := range reviews { // connections, and every image once
		if err := post(ctx, review); err != nil {
			return load{}, err
		}
	}
	result = load{rate: rate, duration: duration}
	if _, err = cluster.WorkingSet(ctx, node, name); err != nil {
		return load{}, err
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for watching.Err() == nil {
			if now, err := cluster.WorkingSet(ctx, node, name); err == nil {
				result.peak = max(result.peak, now)
			}
			time.Sleep(time.Second)
		}
	})
	send(ctx, &result, reviews, post)
	stop()
	watch.Wait()
	return result, ctx.Err()
}

// send keeps up the rate as far as the machine lets it.
func send(ctx context.Context, result *load, reviews [][]byte, post func(context.Context, []byte) error) {
	var (
		mu     sync.Mutex
		flight sync.WaitGroup
		slots  = make(chan struct{}, atOnce)
	)
	tick := time.NewTicker(time.Second / time.Duration(result.rate))
	defer tick.Stop()
	for i := range int(result.duration.Seconds() * float64(result.rate)) {
		<-tick.C
		slots <- struct{}{}
		flight.Go(func() {
			defer func() { <-slots }()
			start := time.Now()
			err := post(ctx, reviews[i%len(reviews)])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if result.failed++; result.failed == 1 {
					log.Print(err)
				}
				return
			}
			result.times = append(result.times, time.Since(start))
		})
	}
	flight.Wait()
	slices.Sort(result.times)
}

// mixedReviews are of TaskRuns (three of five), of pods whose image has to be looked up
// (one of five), and of pods that opt out. API servers call for no other pods in a
// namespace that opts in for pods that ask.
func mixedReviews() ([][]byte, error) {
	registry := os.Getenv("E2E_IMAGE_REGISTRY")
	if registry == "" {
		registry = "docker.io"
	}
	var reviews [][]byte
	for i := range askers {
		lookedUp := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "app", Labels: map[string]string{"serving.knative.dev/revision": "app"}},
			Spec: corev1.PodSpec{
				ServiceAccountName: fmt.Sprint("asker-", i),
				Containers:         []corev1.Container{{Name: "user-container", Image: registry + "/library/busybox:1.37"}},
			},
		}
		optsOut := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "app", Annotations: map[string]string{pod.InjectAnnotation: "false"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}
		for _, p := range []*corev1.Pod{taskRunPod(), taskRunPod(), taskRunPod(), lookedUp, optsOut} {
			object, err := json.Marshal(p)
			if err != nil {
				return nil, err
			}
			review, err := json.Marshal(admissionv1.AdmissionReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
				Request: &admissionv1.AdmissionRequest{
					UID: types.UID(fmt.Sprint(i)), Namespace: benchNamespace, Operation: admissionv1.Create,
					Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
					Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
					Object:   runtime.RawExtension{Raw: object},
				},
			})
			if err != nil {
				return nil, err
			}
			reviews = append(reviews, review)
		}
	}
	return reviews, nil
}

// poster returns a function that has the injector decide on a review, as the API server
// would.
func poster(ctx context.Context, cluster *framework.Cluster) (func(context.Context, []byte) error, error) {
	webhook, err := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, framework.PodWebhook, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the webhook's CA: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(webhook.Webhooks[0].ClientConfig.CABundle)
	svc, err := cluster.Kube.CoreV1().Services(framework.SystemNamespace).Get(ctx, framework.WebhookService, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the webhook's address: %w", err)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		MaxIdleConnsPerHost: atOnce,
		TLSClientConfig:     &tls.Config{RootCAs: pool, ServerName: framework.WebhookService + "." + framework.SystemNamespace + ".svc", MinVersion: tls.VersionTLS13},
	}}
	url := fmt.Sprintf("https://%s/pods?timeout=10s", net.JoinHostPort(svc.Spec.ClusterIP, "443"))
	return func(ctx context.Context, review []byte) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(review))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return fmt.Errorf("posting a review: %w; does this run on a node of the cluster?", err)
		}
		defer func() { _ = response.Body.Close() }()
		var answer admissionv1.AdmissionReview
		if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&answer); err != nil {
			return fmt.Errorf("reading the answer to a review (%s): %w", response.Status, err)
		}
		if answer.Response == nil || !answer.Response.Allowed {
			return fmt.Errorf("a pod was refused: %+v", answer.Response)
		}
		return nil
	}, nil
}

// leaveOne starts the injector afresh with one replica, and says where it runs.
func leaveOne(ctx context.Context, cluster *framework.Cluster) (node, name string, err error) {
	if err := cluster.ScaleInjector(ctx, 1); err != nil {
		return "", "", err
	}
	if err := cluster.KillInjector(ctx, 1); err != nil {
		return "", "", err
	}
	err = framework.Eventually(ctx, 2*time.Minute, "a single new replica of the injector", func(ctx context.Context) error {
		pods, err := cluster.InjectorPods(ctx)
		if err != nil {
			return err
		}
		if len(pods) != 1 || pods[0].DeletionTimestamp != nil {
			return fmt.Errorf("there are %d", len(pods))
		}
		node, name = pods[0].Spec.NodeName, pods[0].Name
		return nil
	})
	if err != nil {
		return "", "", err
	}
	return node, name, cluster.WaitForInjector(ctx)
}

func restore(ctx context.Context, cluster *framework.Cluster) error {
	if err := cluster.ScaleInjector(ctx, 2); err != nil {
		return err
	}
	return cluster.WaitForInjector(ctx)
}
