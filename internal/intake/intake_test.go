// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	admissionv1 "k8s.io/api/admission/v1"
	logtesting "knative.dev/pkg/logging/testing"

	"github.com/entrypointer/entrypointer/internal/metricstest"
	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// A served is an Intake in front of a webhook that admits everything, after block.
type served struct {
	*Intake

	called atomic.Int64
	block  chan struct{} // nil: the webhook answers at once
}

func newServed(t *testing.T, callers func(*http.Request) *x509.CertPool) *served {
	t.Helper()
	s := &served{}
	webhook := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.called.Add(1)
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("the webhook can't read the body: %v", err)
		}
		if s.block != nil {
			select {
			case <-s.block:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, string(review.Request.UID))
	})
	var err error
	s.Intake, err = New(webhook, callers, logtesting.TestLogger(t), noop.NewMeterProvider())
	require.NoError(t, err)
	return s
}

func everyCaller(*http.Request) *x509.CertPool { return nil }

func reviewOf(namespace, object string) string {
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","kind":{"version":"v1","kind":"Pod"},`+
		`"namespace":%q,"operation":"CREATE","userInfo":{"groups":["system:authenticated"]},"object":%s}}`, namespace, object)
}

func post(t *testing.T, body string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pods?timeout=10s", strings.NewReader(body))
}

func TestThePageListsTheMetricOfRefusedRequests(t *testing.T) {
	provider, exported := metricstest.NewProvider(t)
	in, err := New(http.NotFoundHandler(), everyCaller, logtesting.TestLogger(t), provider)
	require.NoError(t, err)
	in.ServeHTTP(httptest.NewRecorder(), post(t, "no AdmissionReview"))
	metricstest.RequireDocumented(t, exported, "entrypointer_webhook_")
}

func TestARequestReachesItsWebhookAsItIs(t *testing.T) {
	for _, length := range []int{0, firstBytes, usualBody, usualBody * 3, maxBody - 1000} {
		for name, announced := range map[string]bool{"of announced length": true, "in chunks": false} {
			t.Run(fmt.Sprint(length, " ", name), func(t *testing.T) {
				want := reviewOf("tenant", `{"metadata":{"name":"`+strings.Repeat("x", length)+`"}}`)
				var got string
				in, err := New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Errorf("reading the body: %v", err)
					}
					got = string(body)
				}), everyCaller, logtesting.TestLogger(t), noop.NewMeterProvider())
				require.NoError(t, err)
				request := post(t, want)
				if !announced {
					request.ContentLength = -1
				}
				in.ServeHTTP(httptest.NewRecorder(), request)
				require.Equal(t, want, got)
			})
		}
	}
}

func TestAnObjectThatMakesNoSenseReachesNoWebhook(t *testing.T) {
	million := func(element string) string { return strings.TrimSuffix(strings.Repeat(element+",", 1_000_000), ",") }
	for name, test := range map[string]struct{ body, message string }{
		"a million containers":  {reviewOf("tenant", `{"spec":{"containers":[`+million(`{}`)+`]}}`), `"spec.containers" has more than 10000 entries`},
		"a million tolerations": {reviewOf("tenant", `{"spec":{"tolerations":[`+million(`{}`)+`]}}`), `"spec.tolerations" has more than 10000 entries`},
		"many short lists":      {reviewOf("tenant", `{"spec":{"containers":[`+strings.TrimSuffix(strings.Repeat(`{"args":["a","b","c","d","e","f","g","h","i"]},`, 9999), ",")+`]}}`), `there are more than 100000 values; remove some of "spec.containers[`},
		"many labels":           {reviewOf("tenant", `{"metadata":{"labels":{`+members(10_001)+`}}}`), `"metadata.labels" has more than 10000 entries`},
		"deep objects":          {reviewOf("tenant", `{"spec":`+strings.Repeat(`{"a":`, 100)+`1`+strings.Repeat(`}`, 100)+`}`), `.a" is nested more than 64 times`},
		"deep lists":            {reviewOf("tenant", `{"spec":`+strings.Repeat(`[`, 100)+strings.Repeat(`]`, 100)+`}`), `is nested more than 64 times`},
		"many groups":           {strings.Replace(reviewOf("tenant", `{}`), `["system:authenticated"]`, `[`+million(`""`)+`]`, 1), `"request.userInfo.groups" has more than`},
		"4 MiB":                 {reviewOf("tenant", `{"metadata":{"name":"`+strings.Repeat("x", 4<<20)+`"}}`), "it is longer than 3145728 bytes"},
		"a name twice":          {reviewOf("tenant", `{"metadata":{"annotations":{`+members(9_000)+`},"annotations":{}}}`), `duplicate object member name "annotations"`},
		"another namespace":     {strings.Replace(reviewOf("tenant", `{}`), `"operation"`, `"namespace":"other","operation"`, 1), `duplicate object member name "namespace"`},
		"fields of nobody":      {strings.Replace(reviewOf("tenant", `{}`), `"groups":["system:authenticated"]`, `"extra":{"fieldsV1":[`+million(`""`)+`]}`, 1), `"request.userInfo.extra.fieldsV1" has more than`},
		"much when decoded":     {reviewOf("tenant", `{"spec":{"containers":[`+strings.TrimSuffix(strings.Repeat(`{"resources":{"limits":{"":1}}},`, 9_999), ",")+`]}}`), "it takes up to 50 MiB of memory when it is decoded, and 32 MiB are the most; make it smaller"},
		"a truncated object":    {reviewOf("tenant", `{"metadata":[`), "reading the request"},
		"a name of 3 million":   {reviewOf("tenant", `{"`+strings.Repeat("x", 3_000_000)+`":[`+strings.TrimSuffix(strings.Repeat("1,", 10_001), ",")+`]}`), `xxx..." has more than 10000 entries`},
	} {
		for _, announced := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", announced: ", announced), func(t *testing.T) {
				webhook := newServed(t, everyCaller)
				answer := httptest.NewRecorder()
				request := post(t, test.body)
				if !announced {
					request.ContentLength = -1
				}
				webhook.ServeHTTP(answer, request)
				require.Zero(t, webhook.called.Load())
				require.Equal(t, http.StatusOK, answer.Code, "the API server shows the message")
				var review admissionv1.AdmissionReview
				require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &review))
				require.Equal(t, "u-1", string(review.Response.UID))
				require.Equal(t, "admission.k8s.io/v1", review.APIVersion)
				require.False(t, review.Response.Allowed)
				require.Contains(t, review.Response.Result.Message, test.message)
				require.Less(t, len(review.Response.Result.Message), 1024)
			})
		}
	}
}

// members are names and values of an object.
func members(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `"k%d":"",`, i)
	}
	return strings.TrimSuffix(text.String(), ",")
}

// The object is admitted by the failurePolicy of its webhook.
func TestAWebhookWhoseFailuresAreIgnoredRefusesNothing(t *testing.T) {
	webhook := newServed(t, everyCaller)
	webhook.Ignored = func(r *http.Request) bool { return r.URL.Path == "/workloads" }
	for path, want := range map[string]int{"/workloads": http.StatusRequestEntityTooLarge, "/pods": http.StatusOK} {
		request := post(t, reviewOf("tenant", `{"metadata":{"labels":{`+members(10_001)+`}}}`))
		request.URL.Path = path
		answer := httptest.NewRecorder()
		webhook.ServeHTTP(answer, request)
		require.Equal(t, want, answer.Code, path)
		require.Contains(t, answer.Body.String(), "has more than 10000 entries", path)
	}
	require.Zero(t, webhook.called.Load())
}

func TestWhatIsNoAdmissionReviewIsAnsweredByAStatus(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":              ``,
		"no JSON":              `hello`,
		"no request":           `{}`,
		"a request of nothing": `{"request":null}`,
		"a request taken back": `{"request":{"uid":"u"},"request":null}`,
		"no UID":               `{"request":{"namespace":"tenant"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			webhook := newServed(t, everyCaller)
			answer := httptest.NewRecorder()
			webhook.ServeHTTP(answer, post(t, body))
			require.NotContains(t, answer.Body.String(), `"allowed":true`)
			if name != "a request taken back" {
				require.Equal(t, http.StatusBadRequest, answer.Code)
				require.Zero(t, webhook.called.Load())
			}
		})
	}
}

// start returns the URL of a server with the webhook.
func (s *served) start(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL
}

// announce opens a connection, and sends a request of a length up to so much of its body.
func announce(t *testing.T, url string, length int, body string) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	_, err = fmt.Fprintf(connection, "POST /pods?timeout=30s HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", length, body)
	require.NoError(t, err)
	return connection
}

func TestAnnouncedBodiesTakeNoMemoryBeforeTheyCome(t *testing.T) {
	webhook := newServed(t, everyCaller)
	url := webhook.start(t)
	for range 200 {
		announce(t, url, maxBody, "")
		announce(t, url, maxBody, reviewOf("tenant", `{`)[:100])
	}
	response, err := http.Post(url+"/pods?timeout=5s", "application/json", strings.NewReader(reviewOf("tenant", `{"metadata":{"name":"`+strings.Repeat("x", 2<<20)+`"}}`)))
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.EqualValues(t, 1, webhook.called.Load())
}

func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	webhook := newServed(t, everyCaller)
	webhook.bodies.timeout = 100 * time.Millisecond
	url := webhook.start(t)
	// net/http reads the rest of a body of less than 256 KiB before it answers.
	for _, length := range []int{100, 200_000, maxBody} {
		for name, body := range map[string]string{"nothing of it": "", "some of it": reviewOf("tenant", `{`)[:90], "much of it": reviewOf("tenant", `{"a":"`+strings.Repeat("x", usualBody))} {
			if len(body) > length {
				continue
			}
			connection := announce(t, url, length, body)
			require.NoError(t, connection.SetReadDeadline(time.Now().Add(time.Minute)))
			answer, err := io.ReadAll(connection)
			require.NoError(t, err, name)
			require.Contains(t, string(answer), "bytes came in 100ms", name)
		}
	}
	require.Zero(t, webhook.called.Load())
}

func TestACallerThatIsRefusedKeepsNoConnection(t *testing.T) {
	none := x509.NewCertPool()
	webhook := newServed(t, func(*http.Request) *x509.CertPool { return none })
	url := webhook.start(t)
	for _, length := range []int{100, 200_000, maxBody} {
		connection := announce(t, url, length, "")
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(time.Minute)))
		answer, err := io.ReadAll(connection)
		require.NoError(t, err)
		require.Contains(t, string(answer), "403")
	}
}

func TestTheNamespaceBehindALongNameIsKnown(t *testing.T) {
	body := strings.Replace(reviewOf("tenant", `{}`), `"namespace"`, `"name":"`+strings.Repeat("x", 2*firstBytes)+`","namespace"`, 1)
	_, head, release, err := newBodies().read(t.Context(), httptest.NewRecorder(), post(t, body))
	require.NoError(t, err)
	release()
	require.Equal(t, "tenant", head.namespace)
}

// Buffers of bodies that are read at the same time need more memory than there is.
func TestBodiesThatWaitForMemoryAllEnd(t *testing.T) {
	webhook := newServed(t, everyCaller)
	url := webhook.start(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			body := reviewOf(fmt.Sprint("tenant-", i%4), `{"metadata":{"name":"`+strings.Repeat("x", maxBody-1000)+`"}}`)
			connection := announce(t, url, len(body), "")
			for len(body) > 0 {
				n := min(len(body), 256<<10)
				_, _ = io.WriteString(connection, body[:n])
				body = body[n:]
				time.Sleep(time.Millisecond)
			}
			answer := make([]byte, 12)
			if _, err := io.ReadFull(connection, answer); err != nil || string(answer) != "HTTP/1.1 200" {
				t.Errorf("the answer is %q, %v", answer, err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 16, webhook.called.Load())
}

func TestANamespaceThatNeedsMuchWaitsForItself(t *testing.T) {
	webhook := newServed(t, everyCaller)
	webhook.block = make(chan struct{})
	url := webhook.start(t)
	send := func(namespace, object, timeout string) (*http.Response, error) {
		return http.Post(url+"/pods?timeout="+timeout, "application/json", strings.NewReader(reviewOf(namespace, object)))
	}
	large := `{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat(`{},`, 9_000), ",") + `]}}`
	var greedy sync.WaitGroup
	for range 20 {
		greedy.Go(func() {
			if response, err := send("greedy", large, "30s"); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	room := int64(decodedBytesOfNamespace / (9_000 * perListedThing))
	require.Eventually(t, func() bool { return webhook.called.Load() == room }, time.Minute, time.Millisecond)
	response, err := send("greedy", large, "100ms")
	require.NoError(t, err)
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Contains(t, string(answer), "waiting for memory")

	modest := make(chan struct{})
	go func() {
		defer close(modest)
		if response, err := send("modest", large, "30s"); err == nil {
			_ = response.Body.Close()
		}
	}()
	require.Eventually(t, func() bool { return webhook.called.Load() == room+1 }, time.Minute, time.Millisecond)
	close(webhook.block)
	<-modest
	greedy.Wait()
}

func TestACallerWithAnotherNamespacesNameTakesNoneOfItsMemory(t *testing.T) {
	m := tenants.NewShares(64, 32, 8)
	of := func(address, namespace string) []string {
		return holders(&http.Request{RemoteAddr: address + ":1"}, head{namespace: namespace})
	}
	forger, apiServer := of("10.0.0.66", "victim"), of("192.0.2.4", "victim")
	for m.TryAcquire(8, forger...) {
	}
	for i := range 8 { // more namespaces than there is memory for one address
		m.TryAcquire(8, of("10.0.0.66", fmt.Sprint("n", i))...)
	}
	require.True(t, m.TryAcquire(8, apiServer...))
	require.False(t, m.TryAcquire(1, apiServer...), "its share is used up")
}
