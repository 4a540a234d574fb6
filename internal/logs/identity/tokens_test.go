// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// A signingKey signs tokens as the API server does.
type signingKey struct {
	jose.JSONWebKey
	algorithm jose.SignatureAlgorithm
}

func newKey(t testing.TB, id string) signingKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return signingKey{jose.JSONWebKey{Key: private, KeyID: id}, jose.ES256}
}

// sign returns a token.
func (k signingKey) sign(t testing.TB, claims ...any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.JSONWebKey}, nil)
	require.NoError(t, err)
	builder := jwt.Signed(signer)
	for _, c := range claims {
		builder = builder.Claims(c)
	}
	token, err := builder.Serialize()
	require.NoError(t, err)
	return token
}

// publish has the API server publish keys.
func (s *apiServerOf) publish(t testing.TB, keys ...signingKey) {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, k.Public())
	}
	document, err := json.Marshal(set)
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.documents = map[string]string{discoveryPath: `{"issuer":"https://issuer","jwks_uri":"https://elsewhere/jwks"}`, keysPath: string(document)}
}

// claimsOf returns the claims of the token of a pod, at a time.
func claimsOf(name, uid string, now time.Time) (jwt.Claims, map[string]any) {
	claims := jwt.Claims{
		Issuer: "https://issuer", Subject: "system:serviceaccount:tenant:default", Audience: jwt.Audience{endpoint.Audience},
		Expiry: jwt.NewNumericDate(now.Add(time.Hour)), NotBefore: jwt.NewNumericDate(now), IssuedAt: jwt.NewNumericDate(now),
	}
	return claims, map[string]any{"kubernetes.io": map[string]any{
		"namespace": "tenant", "pod": map[string]any{"name": name, "uid": uid}, "serviceaccount": map[string]any{"name": "default", "uid": "uid-default"},
	}}
}

// tokenOf returns a token of a pod that the API server knows.
func (s *apiServerOf) tokenOf(t testing.TB, key signingKey, name, uid string) string {
	t.Helper()
	claims, own := claimsOf(name, uid, s.now())
	signed := key.sign(t, claims, own)
	if s.tokens == nil {
		s.tokens = map[string]token{}
	}
	s.tokens[signed] = token{ours, ofPod(name, uid)}
	return signed
}

func TestAPodIsReviewedSeldomIfItsTokensAreVerified(t *testing.T) {
	t.Parallel()
	server, key := &apiServerOf{}, newKey(t, "1")
	reviewer := server.reviewer()
	server.publish(t, key)
	first := server.tokenOf(t, key, "pod", "uid")
	write := func(signed string, reviews int32) {
		t.Helper()
		pod, err := reviewer.Writer(t.Context(), signed)
		require.NoError(t, err)
		require.Equal(t, api.Pod{Namespace: "tenant", NamespaceUID: "uid-tenant", Name: "pod", UID: "uid"}, pod)
		require.Equal(t, reviews, server.reviews.Load())
	}
	begin := func(signed string, reviews int32) {
		t.Helper()
		_, err := reviewer.Beginner(t.Context(), signed)
		require.NoError(t, err)
		require.Equal(t, reviews, server.reviews.Load())
	}
	begin(first, 1)
	write(first, 1)
	server.pass(writerTTL - time.Second)
	begin(first, 1)
	server.pass(5 * time.Minute)
	write(first, 1)
	renewed := server.tokenOf(t, key, "pod", "uid")
	write(renewed, 1) // another token of the same pod
	server.pass(podTTL - 5*time.Minute)
	write(renewed, 2)
	write(first, 2)
	begin(first, 2) // the pod was reviewed just now
	server.pass(writerTTL)
	begin(first, 3)
	delete(server.tokens, first)
	delete(server.tokens, renewed)
	server.pass(writerTTL)
	write(renewed, 3)
	_, err := reviewer.Beginner(t.Context(), renewed)
	require.ErrorIs(t, err, api.ErrUnauthenticated, "a deleted pod begins no stream")
	server.pass(podTTL)
	_, err = reviewer.Writer(t.Context(), first)
	require.ErrorIs(t, err, api.ErrUnauthenticated)
	require.LessOrEqual(t, server.keyReads.Load(), int32(2*3), "the keys are read again every ten minutes")
}

// The price of streams that begin in an outage: whether the pod was deleted, before it or
// during it, nobody says.
func TestInAnOutageOfTheAPIServerADeletedPodBeginsStreamsForAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	server, key := &apiServerOf{}, newKey(t, "1")
	reviewer := server.reviewer()
	server.publish(t, key)
	signed := server.tokenOf(t, key, "pod", "uid")
	unknown := server.tokenOf(t, key, "another", "uid-2")
	_, err := reviewer.Beginner(t.Context(), signed)
	require.NoError(t, err)
	delete(server.tokens, signed)
	server.down.Store(true)
	server.pass(podTTL + outageTTL - time.Second)
	_, err = reviewer.Beginner(t.Context(), signed)
	require.NoError(t, err)
	_, err = reviewer.Beginner(t.Context(), unknown)
	require.Error(t, err, "a pod that wasn't reviewed before begins none")
	server.pass(time.Second + outagePause)
	_, err = reviewer.Beginner(t.Context(), signed)
	require.ErrorContains(t, err, "no leader")
	server.down.Store(false)
	_, err = reviewer.Beginner(t.Context(), signed)
	require.ErrorIs(t, err, api.ErrUnauthenticated, "after the outage, at once")
}

func TestAPodOfWhichAReviewSaysThatItIsGoneIsReviewedByItsOtherTokens(t *testing.T) {
	t.Parallel()
	server, key := &apiServerOf{}, newKey(t, "1")
	reviewer := server.reviewer()
	server.publish(t, key)
	first := server.tokenOf(t, key, "pod", "uid")
	_, err := reviewer.Beginner(t.Context(), first)
	require.NoError(t, err)
	server.pass(writerTTL)
	second := server.tokenOf(t, key, "pod", "uid")
	server.tokens = nil
	_, err = reviewer.Beginner(t.Context(), first)
	require.ErrorIs(t, err, api.ErrUnauthenticated)
	_, err = reviewer.Writer(t.Context(), second)
	require.ErrorIs(t, err, api.ErrUnauthenticated)
}

func TestAVerifiedTokenIsReviewedOnceItHasExpired(t *testing.T) {
	t.Parallel()
	server, key := &apiServerOf{}, newKey(t, "1")
	reviewer := server.reviewer()
	server.publish(t, key)
	signed := server.tokenOf(t, key, "pod", "uid")
	server.pass(time.Hour - 2*time.Minute)
	_, err := reviewer.Writer(t.Context(), signed)
	require.NoError(t, err)
	delete(server.tokens, signed)
	server.pass(2*time.Minute - time.Second)
	_, err = reviewer.Writer(t.Context(), signed)
	require.NoError(t, err)
	server.pass(clockSkew + 2*time.Second)
	_, err = reviewer.Writer(t.Context(), signed)
	require.ErrorIs(t, err, api.ErrUnauthenticated)
}

// What isn't verified is for the API server to decide, so a wrong token costs what it did.
func TestWhatIsNotVerifiedIsReviewed(t *testing.T) {
	t.Parallel()
	key, other := newKey(t, "1"), newKey(t, "1")
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	rsaKey := signingKey{jose.JSONWebKey{Key: private, KeyID: "rsa"}, jose.RS256}
	server := &apiServerOf{}
	reviewer := server.reviewer()
	now := server.now()
	change := func(does func(*jwt.Claims, map[string]any)) string {
		claims, own := claimsOf("pod", "uid", now)
		does(&claims, own["kubernetes.io"].(map[string]any))
		return key.sign(t, claims, own)
	}
	good, own := claimsOf("pod", "uid", now)
	public, err := json.Marshal(key.Public())
	require.NoError(t, err)
	secret := signingKey{jose.JSONWebKey{Key: public, KeyID: "1"}, jose.HS256}
	whole := key.sign(t, good, own)
	parts := strings.Split(whole, ".")
	none := "eyJhbGciOiJub25lIiwia2lkIjoiMSJ9." + parts[1] + "."
	embedded := newKey(t, "")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: embedded.Key}, &jose.SignerOptions{EmbedJWK: true})
	require.NoError(t, err)
	selfSigned, err := jwt.Signed(signer).Claims(good).Claims(own).Serialize()
	require.NoError(t, err)
	server.publish(t, key, rsaKey)
	for name, signed := range map[string]string{
		"as it is": whole, "by RSA": rsaKey.sign(t, good, own),
		"a slow clock": change(func(c *jwt.Claims, _ map[string]any) { c.NotBefore = jwt.NewNumericDate(now.Add(clockSkew / 2)) }),
	} {
		is, err := reviewer.keys.verify(t.Context(), signed)
		require.NoError(t, err, name)
		require.Equal(t, api.Pod{Namespace: "tenant", Name: "pod", UID: "uid"}, is.pod)
	}
	for name, signed := range map[string]string{
		"another's key":       other.sign(t, good, own),
		"no signature":        none,
		"a secret":            secret.sign(t, good, own),
		"its own key":         selfSigned,
		"changed claims":      parts[0] + "." + strings.Split(other.sign(t, good, map[string]any{}), ".")[1] + "." + parts[2],
		"no token":            "token",
		"a long token":        whole + strings.Repeat("x", maxToken),
		"another issuer":      change(func(c *jwt.Claims, _ map[string]any) { c.Issuer = "https://other" }),
		"another audience":    change(func(c *jwt.Claims, _ map[string]any) { c.Audience = jwt.Audience{"vault"} }),
		"no audience":         change(func(c *jwt.Claims, _ map[string]any) { c.Audience = nil }),
		"expired":             change(func(c *jwt.Claims, _ map[string]any) { c.Expiry = jwt.NewNumericDate(now.Add(-2 * clockSkew)) }),
		"without an end":      change(func(c *jwt.Claims, _ map[string]any) { c.Expiry = nil }),
		"not yet":             change(func(c *jwt.Claims, _ map[string]any) { c.NotBefore = jwt.NewNumericDate(now.Add(2 * clockSkew)) }),
		"a person":            change(func(c *jwt.Claims, _ map[string]any) { c.Subject = "jane" }),
		"of another account":  change(func(c *jwt.Claims, _ map[string]any) { c.Subject = "system:serviceaccount:tenant:other" }),
		"of no pod":           change(func(_ *jwt.Claims, own map[string]any) { delete(own, "pod") }),
		"of a pod without ID": change(func(_ *jwt.Claims, own map[string]any) { own["pod"] = map[string]any{"name": "pod"} }),
		"of a namespace":      change(func(_ *jwt.Claims, own map[string]any) { own["namespace"] = "other" }),
	} {
		_, err := reviewer.keys.verify(t.Context(), signed)
		require.Error(t, err, name)
		server.reviews.Store(0)
		_, err = reviewer.Writer(t.Context(), signed)
		require.ErrorIs(t, err, api.ErrUnauthenticated, name)
		require.EqualValues(t, 1, server.reviews.Load(), name)
	}
}

func TestWithoutKeysEveryTokenIsReviewedEveryMinute(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(s *apiServerOf, key signingKey){
		"forbidden": func(s *apiServerOf, _ signingKey) { s.documents = nil },
		"no issuer": func(s *apiServerOf, _ signingKey) { s.documents[discoveryPath] = "{}" },
		"no JSON":   func(s *apiServerOf, _ signingKey) { s.documents[keysPath] = "<html>" },
		"no keys":   func(s *apiServerOf, _ signingKey) { s.documents[keysPath] = "{}" },
		"a bad key": func(s *apiServerOf, _ signingKey) { s.documents[keysPath] = `{"keys":[{"kty":"EC","kid":"1"}]}` },
		"many keys": func(s *apiServerOf, _ signingKey) {
			s.documents[keysPath] = `{"keys":[` + strings.Repeat("{},", maxKeys) + `{}]}`
		},
		"a short key": func(s *apiServerOf, _ signingKey) {
			s.documents[keysPath] = `{"keys":[{"kty":"RSA","kid":"1","n":"` + strings.Repeat("_", 43) + `","e":"AQAB"}]}`
		},
		"a secret": func(s *apiServerOf, _ signingKey) {
			s.documents[keysPath] = `{"keys":[{"kty":"oct","kid":"1","k":"c2VjcmV0"}]}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key := &apiServerOf{}, newKey(t, "1")
			reviewer := server.reviewer()
			server.publish(t, key)
			damage(server, key)
			signed := server.tokenOf(t, key, "pod", "uid")
			for minute := range int32(3) {
				for range 3 {
					_, err := reviewer.Beginner(t.Context(), signed)
					require.NoError(t, err)
					_, err = reviewer.Writer(t.Context(), signed)
					require.NoError(t, err)
				}
				require.Equal(t, minute+1, server.reviews.Load())
				server.pass(writerTTL)
			}
			require.LessOrEqual(t, server.keyReads.Load(), int32(2*3), "a reading every minute")
		})
	}
}

func TestNewKeysAreReadButNotForEachTokenThatNamesOne(t *testing.T) {
	t.Parallel()
	server, old, next := &apiServerOf{}, newKey(t, "old"), newKey(t, "next")
	reviewer := server.reviewer()
	server.publish(t, old)
	verifies := func(key signingKey, reads int32) error {
		t.Helper()
		_, err := reviewer.keys.verify(t.Context(), server.tokenOf(t, key, "pod", "uid"))
		require.Equal(t, reads, server.keyReads.Load())
		return err
	}
	require.NoError(t, verifies(old, 2))
	server.publish(t, old, next)
	for i := range 10 {
		require.ErrorIs(t, verifies(newKey(t, fmt.Sprint(i)), 2), errNoKey)
	}
	require.ErrorIs(t, verifies(next, 2), errNoKey, "it is reviewed until then")
	server.pass(keysPause)
	require.NoError(t, verifies(next, 4))
	require.NoError(t, verifies(old, 4))

	server.publish(t, next)
	server.pass(keysTTL)
	require.ErrorIs(t, verifies(old, 6), errNoKey, "it was withdrawn")
	server.mu.Lock()
	server.documents = nil
	server.mu.Unlock()
	server.pass(keysTTL)
	require.ErrorIs(t, verifies(next, 7), errNoKey, "keys that can't be read again don't count")
}

// The documents are read as the service's own account.
func TestTheKeysOfAnAPIServerAreReadWithinBounds(t *testing.T) {
	t.Parallel()
	key, clock := newKey(t, "1"), &apiServerOf{}
	clock.reviewer()
	clock.publish(t, key)
	size := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer own" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprint(w, clock.documents[r.URL.Path]+strings.Repeat(" ", size))
	}))
	defer server.Close()
	verify := func(bearer string) error {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: bearer})
		require.NoError(t, err)
		claims, own := claimsOf("pod", "uid", time.Now())
		_, err = New(client, slog.New(slog.DiscardHandler)).keys.verify(t.Context(), key.sign(t, claims, own))
		return err
	}
	require.NoError(t, verify("own"))
	require.Error(t, verify("another"))
	size = maxKeyDocument
	require.Error(t, verify("own"))
}

// 10,000 pods that write all the time were reviewed 10,000 times a minute.
func TestThePodsOfALargeClusterAreReviewedEveryTenMinutes(t *testing.T) {
	t.Parallel()
	pods := 10_000
	if testing.Short() {
		pods = 500
	}
	server, key := &apiServerOf{}, newKey(t, "1")
	reviewer := server.reviewer()
	server.publish(t, key)
	tokens := make([]string, pods)
	const minutes, renewal = 60, 48 // the kubelet renews a token after 80 % of its hour
	for minute := range podMinutes + minutes {
		if minute == podMinutes {
			server.reviews.Store(0)
		}
		for i := range tokens {
			name := fmt.Sprint("pod-", i)
			switch {
			case tokens[i] == "" && minute == i%podMinutes:
				tokens[i] = server.tokenOf(t, key, name, name)
				_, err := reviewer.Beginner(t.Context(), tokens[i])
				require.NoError(t, err)
			case tokens[i] != "" && (minute+i)%renewal == 0:
				delete(server.tokens, tokens[i])
				tokens[i] = server.tokenOf(t, key, name, name)
			}
			if tokens[i] != "" {
				_, err := reviewer.Writer(t.Context(), tokens[i])
				require.NoError(t, err)
			}
		}
		server.pass(time.Minute)
	}
	each := float64(server.reviews.Load()) / minutes
	t.Logf("%d pods are reviewed %.0f times a minute", pods, each)
	require.LessOrEqual(t, each, 1.1*float64(pods)/float64(podMinutes))
}

const podMinutes = int(podTTL / time.Minute)
