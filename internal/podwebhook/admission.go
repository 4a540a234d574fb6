// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package podwebhook is the admission webhook for pods: it calls pkg/pod for each pod that
// an API server sends.
package podwebhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"knative.dev/pkg/apis"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"

	"github.com/entrypointer/entrypointer/internal/admission"
	"github.com/entrypointer/entrypointer/internal/autodelivery"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/credentials"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// WebhookName is the name of the MutatingWebhookConfiguration.
const WebhookName = "pods.entrypointer.dev"

// Path is the path of the webhook, the only one of the injector's whose failures refuse
// objects (failurePolicy Fail).
const Path = "/pods"

// answerMargin is the part of the API server's timeout that is left for sending the
// response: a webhook that times out gives no reason, and an early response does.
const answerMargin = 500 * time.Millisecond

// Images are the images that bring the supervisor into a pod, pinned by digest.
type Images struct {
	Copier, Entrypoint string
	// Images for pods with containers whose output goes to the log service.
	CopierWithLogs, EntrypointWithLogs string
}

// NewAdmissionController returns a constructor of the pod webhook. auto reports whether
// pods can mount images. claim returns the name of the claim that pods of a namespace can
// mount, "" if there is none.
func NewAdmissionController(images Images, settings *config.Store, auto *autodelivery.Auto, claim func(namespace string) string) injection.ControllerConstructor {
	return func(ctx context.Context, _ configmap.Watcher) *controller.Impl {
		logger := logging.FromContext(ctx)
		client, err := unlimitedClient(ctx)
		if err != nil {
			logger.Fatalw("Failed to make a client for lookups", zap.Error(err))
		}
		services, err := serviceAddresses(ctx, client)
		if err != nil {
			logger.Warnw("Lookups may connect to services of this cluster, but for its API server", zap.Error(err))
		}
		metrics, err := newMetrics(otel.GetMeterProvider())
		if err != nil {
			logger.Fatalw("Failed to register metrics", zap.Error(err))
		}
		recorder, err := startRecorder(ctx, metrics)
		if err != nil {
			logger.Fatalw("Failed to make a client for events", zap.Error(err))
		}
		w := &wrapper{
			images:  images,
			config:  settings,
			auto:    auto,
			claim:   claim,
			lookups: &lookups{credentials: credentials.OfPods(client), services: services, metrics: metrics},
			metrics: metrics,
			events:  &events{recorder},
			logs:    followLogService(ctx, client, logger),
			namespaces: namespaces{
				cached: namespaceinformer.Get(ctx).Lister(),
				client: client,
				reads:  flowcontrol.NewTokenBucketPassiveRateLimiter(freshReadsPerSecond, freshReadsAtOnce),
			},
		}
		return admission.NewController(ctx, WebhookName, Path, w.admit)
	}
}

// unlimitedClient returns a client that reads the credentials of pods. With the rate
// limiter of the client that the reconcilers share, a burst of one tenant's pods would
// delay the pods of all others. The API server's own limits are fair to tenants. It sends
// protobuf, which takes less to decode than JSON.
func unlimitedClient(ctx context.Context) (kubernetes.Interface, error) {
	config := rest.CopyConfig(injection.GetConfig(ctx))
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

// configuration holds the configuration in force.
type configuration interface{ Load() *config.Config }

// verdict reports whether pods can mount images.
type verdict interface{ Verdict() autodelivery.Verdict }

type wrapper struct {
	images  Images
	claim   func(namespace string) string
	config  configuration
	auto    verdict
	lookups *lookups
	metrics *metrics
	events  *events
	logs    *logService

	namespaces  namespaces
	secondLooks secondLooks
}

func (w *wrapper) admit(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	start := time.Now()
	namespace, response := w.optedIn(ctx, request)
	if namespace == nil {
		return response
	}
	var before corev1.Pod
	if err := json.Unmarshal(request.Object.Raw, &before); err != nil {
		return admission.Malformed(err)
	}
	result, err := w.decideFresh(ctx, namespace, &before)
	if err == nil {
		err = pod.CheckMountOptions(request.Object.Raw, result)
	}
	outcome := result.Outcome
	if err != nil {
		err = fmt.Errorf("%s: %w", describe(&before), err)
		outcome = outcomeOf(err)
	}
	took := time.Since(start)
	w.metrics.decided(ctx, outcome, result.Owner, result.Delivery, took)
	logDecision(ctx, request, &before, result, outcome, err, took)
	if err != nil {
		return admission.Deny(err)
	}
	w.secondLooks.log(ctx, &before, result)
	w.events.warn(request, &before, result)
	if result.Pod, err = w.explained(request, namespace, &before, result.Pod); err != nil {
		return admission.Deny(err)
	}
	response = admission.Allow(pod.Patch(&before, result.Pod))
	response.Warnings = pod.Messages(result.Warnings)
	return response
}

// logDecision writes one line for each decision.
func logDecision(ctx context.Context, request *admissionv1.AdmissionRequest, before *corev1.Pod, result pod.Result, outcome pod.Outcome, err error, took time.Duration) {
	fields := []any{zap.String("pod", nameOf(before))}
	if controller := metav1.GetControllerOf(before); controller != nil {
		fields = append(fields, zap.String("controller", cut(controller.Kind+"/"+controller.Name)))
	}
	if isDryRun(request) {
		fields = append(fields, zap.Bool("dry-run", true))
	}
	fields = append(fields, zap.String("outcome", string(outcome)))
	logger := logging.FromContext(ctx)
	switch {
	case outcome == pod.InternalError:
		logger.Errorw("Refused a pod", append(fields, zap.Duration("took", took), zap.Error(err))...)
	case err != nil:
		logger.Infow("Refused a pod", append(fields, zap.Duration("took", took), zap.Error(err))...)
	default:
		logger.Infow("Decided on a pod", append(fields, zap.String("owner", string(result.Owner)), zap.String("delivery", string(result.Delivery)),
			zap.Strings("wrapped", result.Wrapped), zap.Duration("took", took))...)
	}
}

// optedIn returns the namespace of a new pod if the namespace opted in, and otherwise the
// response. API servers call the webhook only for namespaces that opted in, but other
// clients can reach it: they must not make the injector use the credentials of other
// namespaces, nor create events there, nor learn which namespaces exist.
func (w *wrapper) optedIn(ctx context.Context, request *admissionv1.AdmissionRequest) (*corev1.Namespace, *admissionv1.AdmissionResponse) {
	if request.Operation != admissionv1.Create || request.Resource.Resource != "pods" || request.SubResource != "" {
		return nil, admission.Allow(nil)
	}
	namespace, err := w.namespaces.get(ctx, request.Namespace)
	if err == nil && !optedIn(namespace) {
		namespace, err = w.namespaces.fresh(ctx, request.Namespace)
	}
	switch {
	case apierrors.IsNotFound(err) || err == nil && !optedIn(namespace):
		w.metrics.decided(ctx, pod.NotOptedIn, "", "", 0)
		return nil, admission.Allow(nil)
	case err != nil:
		return nil, admission.Deny(fmt.Errorf("deciding on a pod: %w", err))
	default:
		return namespace, nil
	}
}

// decideFresh decides again with the namespace as it is now, if the decision is to leave
// alone a pod that doesn't ask: its namespace may opt in for all pods, and the cache may
// lag behind. If the pod has no annotation and no label of ours either, that is the only
// case in which API servers call for it, so a namespace that can't be read refuses it.
func (w *wrapper) decideFresh(ctx context.Context, namespace *corev1.Namespace, before *corev1.Pod) (pod.Result, error) {
	result, err := w.decide(ctx, namespace, before)
	if err != nil || result.Outcome != pod.NotOurs || asksForAll(namespace) {
		return result, err
	}
	fresh, err := w.namespaces.fresh(ctx, namespace.Name)
	switch {
	case err != nil && result.Pod == before:
		return pod.Result{}, err
	case err == nil && asksForAll(fresh):
		return w.decide(ctx, fresh, before)
	default:
		return result, nil
	}
}

func (w *wrapper) decide(ctx context.Context, namespace *corev1.Namespace, before *corev1.Pod) (pod.Result, error) {
	current := w.config.Load()
	lookuper, err := w.lookups.under(current)
	if err != nil {
		return pod.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, budget(ctx, current.LookupTimeout))
	defer cancel()
	injector := w.injector(current, namespace)
	injector.Lookup = lookuper
	return injector.Inject(ctx, namespace.Name, before)
}

// injector returns the injector for pods of a namespace, without lookups.
func (w *wrapper) injector(current *config.Config, namespace *corev1.Namespace) *pod.Injector {
	injector := current.Injector(namespace)
	if injector.Policy.Delivery == pod.DeliveryClaim {
		injector.ClaimName = w.claim(namespace.Name)
	}
	injector.Policy = w.proven(injector.Policy)
	injector.Copiers = []string{w.images.Copier, w.images.CopierWithLogs}
	injector.CopierImage, injector.EntrypointImage = w.images.Copier, w.images.Entrypoint
	injector.Logs = w.logs.forPods(w.images)
	return injector
}

// explained returns a pod with the explanation of its decision, if a dry run asks for it:
// kubectl entrypointer why does, for users who may not read the operator's configuration.
func (w *wrapper) explained(request *admissionv1.AdmissionRequest, namespace *corev1.Namespace, before, decided *corev1.Pod) (*corev1.Pod, error) {
	if _, asks := before.Annotations[pod.ExplainAnnotation]; !asks || !isDryRun(request) {
		return decided, nil
	}
	_, explanations, err := w.injector(w.config.Load(), namespace).Explain(namespace.Name, before)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", describe(before), err)
	}
	return pod.WithExplanation(decided, explanations)
}

func isDryRun(request *admissionv1.AdmissionRequest) bool {
	return request.DryRun != nil && *request.DryRun
}

// proven lets pods mount images only if that is known to work.
func (w *wrapper) proven(policy pod.Policy) pod.Policy {
	if policy.Delivery == pod.DeliveryAuto && !w.auto.Verdict().ImageVolumes() {
		policy.Delivery = pod.DeliveryInitContainer
	}
	return policy
}

// outcomeOf names the outcome of a pod that is refused.
func outcomeOf(err error) pod.Outcome {
	if refusal, ok := errors.AsType[*pod.Refusal](err); ok {
		return refusal.Outcome
	}
	return pod.InternalError
}

// budget returns the time for lookups: the configured time, or less if the API server's
// own timeout is shorter (which it sends in the URL: ?timeout=10s).
func budget(ctx context.Context, configured time.Duration) time.Duration {
	request := apis.GetHTTPRequest(ctx)
	if request == nil {
		return configured
	}
	patience, err := time.ParseDuration(request.URL.Query().Get("timeout"))
	if err != nil || patience <= answerMargin {
		return configured
	}
	return min(configured, patience-answerMargin)
}

// nameOf returns a pod's name, or its generateName: a pod of a controller has no name yet
// when it is admitted.
func nameOf(p *corev1.Pod) string {
	if p.Name == "" && p.GenerateName != "" {
		return cut(p.GenerateName) + "*"
	}
	return cut(p.Name)
}

// maxName bounds names in logs and errors, in bytes: API servers check names after they
// have called webhooks. A name of Kubernetes has 253 bytes at most.
const maxName = 512

// cut returns the beginning of a text that is too long.
func cut(text string) string {
	if len(text) <= maxName {
		return text
	}
	return beginning(text, maxName) + "..."
}

// beginning returns as much of a text as fits into so many bytes.
func beginning(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "")
}

// describe names a pod by the object that its author knows.
func describe(p *corev1.Pod) string {
	if owner := metav1.GetControllerOf(p); owner != nil {
		return fmt.Sprintf("pod %q of %s %q", nameOf(p), cut(owner.Kind), cut(owner.Name))
	}
	return fmt.Sprintf("pod %q", nameOf(p))
}
