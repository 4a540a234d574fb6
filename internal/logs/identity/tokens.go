// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

const (
	// clockSkew is by how much the clock of the API server may differ, as it allows itself.
	clockSkew = jwt.DefaultLeeway
	// maxToken bounds a token that is verified here, in bytes.
	maxToken = 16 << 10
)

// signatures are the algorithms by which Kubernetes signs the tokens of service accounts
// (https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/serviceaccount/jwt.go), and others
// with public keys, which an external signer may use. So none and secrets aren't among them.
var signatures = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512}

// A verified token says to which pod it is bound, and when it expires.
type verified struct {
	pod     api.Pod
	expires time.Time
}

// podClaims are the claims of Kubernetes' own, in a token that is bound to a pod.
type podClaims struct {
	Kubernetes struct {
		Namespace string `json:"namespace"`
		Pod       struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"pod"`
		ServiceAccount struct {
			Name string `json:"name"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// verify verifies a token by the keys of the API server, without asking it. An error means
// only that the API server has to review the token: it may know more issuers and keys.
func (k *keyCache) verify(ctx context.Context, token string) (v verified, err error) {
	if len(token) > maxToken {
		return v, errors.New("verifying a token: it is too long")
	}
	signed, err := jwt.ParseSigned(token, signatures)
	if err != nil {
		return v, fmt.Errorf("verifying a token: %w", err)
	}
	if len(signed.Headers) != 1 || signed.Headers[0].KeyID == "" {
		return v, errors.New("verifying a token: it names no key")
	}
	key, issuer, err := k.key(ctx, signed.Headers[0].KeyID)
	if err != nil {
		return v, fmt.Errorf("verifying a token: %w", err)
	}
	if key.Algorithm != "" && key.Algorithm != signed.Headers[0].Algorithm {
		return v, errors.New("verifying a token: its key is for another algorithm")
	}
	var claims jwt.Claims
	var own podClaims
	if err := signed.Claims(key, &claims, &own); err != nil {
		return v, fmt.Errorf("verifying a token: %w", err)
	}
	expected := jwt.Expected{Issuer: issuer, AnyAudience: jwt.Audience{endpoint.Audience}, Time: k.now()}
	if err = claims.ValidateWithLeeway(expected, clockSkew); err != nil {
		return v, fmt.Errorf("verifying a token: %w", err)
	}
	if claims.Expiry == nil {
		return v, errors.New("verifying a token: it doesn't expire")
	}
	v.expires = claims.Expiry.Time()
	v.pod, err = own.pod(claims.Subject)
	return v, err
}

// pod returns the pod to which a token is bound whose subject is a service account.
func (c podClaims) pod(subject string) (api.Pod, error) {
	of := c.Kubernetes
	account := "system:serviceaccount:" + of.Namespace + ":" + of.ServiceAccount.Name
	isAccount := of.Namespace != "" && of.ServiceAccount.Name != "" && !strings.Contains(of.Namespace+of.ServiceAccount.Name, ":")
	if !isAccount || subject != account || of.Pod.Name == "" || of.Pod.UID == "" {
		return api.Pod{}, errors.New("verifying a token: it isn't that of a service account, bound to a pod")
	}
	return api.Pod{Namespace: of.Namespace, Name: of.Pod.Name, UID: of.Pod.UID}, nil
}
