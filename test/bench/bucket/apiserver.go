// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/entrypointer/entrypointer/internal/logs/authority"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/keeper"
)

// An apiServer is as much of a Kubernetes API server as the log service asks: it signs and
// reviews the tokens of pods, has namespaces, and keeps the service's CA.
type apiServer struct {
	address string
	limits  map[string]string // the ConfigMap with the service's limits
	signer  jose.Signer
	keys    jose.JSONWebKeySet
	public  *ecdsa.PublicKey
	server  *http.Server

	mu       sync.Mutex
	ca       *corev1.Secret
	endpoint map[string]string // what the service publishes of itself
}

const (
	issuer = "https://kubernetes.default.svc"
	// reader is the token of a user who may read all logs.
	reader = "reader"
)

func startAPIServer(ctx context.Context, limits map[string]string) (*apiServer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		return nil, fmt.Errorf("making a signer of tokens: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &apiServer{
		address: listener.Addr().String(), limits: limits, signer: signer, public: &key.PublicKey,
		keys: jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1", Use: "sig", Algorithm: string(jose.ES256)}}},
	}
	a.server = &http.Server{Handler: a.handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

func (a *apiServer) close() { _ = a.server.Close() }

// kubeconfig is that of the log service.
func (a *apiServer) kubeconfig() string {
	return fmt.Sprintf("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}], contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}\n", "http://"+a.address)
}

// The claims of a token that is bound to a pod.
type podClaims struct {
	jwt.Claims
	Kubernetes kubernetesClaims `json:"kubernetes.io"`
}

type kubernetesClaims struct {
	Namespace      string  `json:"namespace"`
	Pod            boundTo `json:"pod"`
	ServiceAccount boundTo `json:"serviceaccount"`
}

type boundTo struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// token returns a token of a pod for the log service.
func (a *apiServer) token(namespace, pod string) (string, error) {
	now := time.Now()
	return jwt.Signed(a.signer).Claims(podClaims{
		Claims: jwt.Claims{
			Issuer: issuer, Subject: "system:serviceaccount:" + namespace + ":default", Audience: jwt.Audience{endpoint.Audience},
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(24 * time.Hour)),
		},
		Kubernetes: kubernetesClaims{namespace, boundTo{pod, "uid-" + namespace + "-" + pod}, boundTo{"default", "uid-default"}},
	}).Serialize()
}

func (a *apiServer) handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, with func(r *http.Request) (any, int)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			object, code := with(r)
			if object == nil {
				object = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reasons[code], Code: int32(code)} //nolint:gosec // G115: an HTTP status
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(object) // a client that has gone
		})
	}
	answer("/", func(*http.Request) (any, int) { return nil, http.StatusNotFound })
	answer("GET /.well-known/openid-configuration", func(*http.Request) (any, int) { return map[string]string{"issuer": issuer}, http.StatusOK })
	answer("GET /openid/v1/jwks", func(*http.Request) (any, int) { return a.keys, http.StatusOK })
	answer("GET /api/v1/namespaces/{name}", func(r *http.Request) (any, int) {
		return corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: r.PathValue("name"), UID: types.UID("uid-" + r.PathValue("name")), CreationTimestamp: metav1.Unix(1<<30, 0)},
		}, http.StatusOK
	})
	const own = "/api/v1/namespaces/" + endpoint.Namespace
	answer("GET "+own+"/configmaps/"+keeper.ConfigMap, func(*http.Request) (any, int) {
		return corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: keeper.ConfigMap}, Data: a.limits}, http.StatusOK
	})
	answer("GET "+own+"/services/logs", func(*http.Request) (any, int) {
		return corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}, http.StatusOK
	})
	answer("GET "+own+"/secrets/"+authority.Secret, func(*http.Request) (any, int) { return a.secret() })
	answer("POST "+own+"/secrets", a.createSecret)
	answer("PATCH "+own+"/configmaps/"+endpoint.ConfigMap, a.publish)
	answer("PATCH /apis/apiregistration.k8s.io/v1/apiservices/{name}", func(r *http.Request) (any, int) {
		return map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": r.PathValue("name")}}, http.StatusOK
	})
	answer("POST /apis/authentication.k8s.io/v1/tokenreviews", a.reviewToken)
	answer("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(*http.Request) (any, int) {
		return authorizationv1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		}, http.StatusCreated
	})
	return mux
}

var reasons = map[int]metav1.StatusReason{
	http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusConflict: metav1.StatusReasonAlreadyExists, http.StatusBadRequest: metav1.StatusReasonBadRequest,
}

// decode returns the object in a request.
func decode[T any](r *http.Request) (object *T, ok bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, false
	}
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, false
	}
	object, ok = any(decoded).(*T)
	return object, ok
}

func (a *apiServer) secret() (any, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ca == nil {
		return nil, http.StatusNotFound
	}
	return a.ca, http.StatusOK
}

func (a *apiServer) createSecret(r *http.Request) (any, int) {
	secret, ok := decode[corev1.Secret](r)
	if !ok {
		return nil, http.StatusBadRequest
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ca != nil {
		return nil, http.StatusConflict
	}
	secret.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	a.ca = secret
	return secret, http.StatusCreated
}

// publish takes the address and the CA of the log service.
func (a *apiServer) publish(r *http.Request) (any, int) {
	var applied struct{ Data map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&applied); err != nil {
		return nil, http.StatusBadRequest
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endpoint = applied.Data
	return corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: applied.Data}, http.StatusOK
}

// published is what the log service has published, nil before that.
func (a *apiServer) published() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.endpoint
}

func (a *apiServer) reviewToken(r *http.Request) (any, int) {
	review, ok := decode[authenticationv1.TokenReview](r)
	if !ok {
		return nil, http.StatusBadRequest
	}
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	isForLogs := slices.Contains(review.Spec.Audiences, endpoint.Audience)
	if review.Spec.Token == reader && !isForLogs {
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: reader}}
		return review, http.StatusCreated
	}
	var claims podClaims
	signed, err := jwt.ParseSigned(review.Spec.Token, []jose.SignatureAlgorithm{jose.ES256})
	if err == nil {
		err = signed.Claims(a.public, &claims)
	}
	if err == nil && isForLogs && strings.HasPrefix(claims.Subject, "system:serviceaccount:") {
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{
			Username: claims.Subject, Extra: map[string]authenticationv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {claims.Kubernetes.Pod.Name}, "authentication.kubernetes.io/pod-uid": {claims.Kubernetes.Pod.UID},
			},
		}}
	}
	return review, http.StatusCreated
}
