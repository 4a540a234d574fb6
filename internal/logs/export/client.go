// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// maxResponse bounds what is read of a response, in bytes.
	maxResponse = 64 << 10
	// maxResponseHeader bounds the headers of a response, in bytes.
	maxResponseHeader = 64 << 10
	// maxSettings bounds the files with headers and with CAs, in bytes.
	maxSettings = 1 << 20
	// maxRetryAfter bounds how long the destination can have the service wait.
	maxRetryAfter = 5 * time.Minute
	// maxWhy bounds what is repeated of a destination's words, in bytes.
	maxWhy = 200
)

// A refusal is the destination's word that it will never take a request.
type refusal struct{ why string }

// Error implements error.
func (r *refusal) Error() string { return "the destination refused a request: " + r.why }

// A delay is a failure after which a request is sent again.
type delay struct {
	why   string
	after time.Duration // what the destination asked for, 0 if it asked for nothing
}

// Error implements error.
func (d *delay) Error() string { return d.why }

// A client sends requests to the destination.
type client struct {
	url     string
	host    string // of the URL
	headers string // the file that has them, "" for none
	http    *http.Client
}

// newClient returns a client, or an error that says which option is wrong.
func newClient(o Options) (*client, error) {
	at, err := url.Parse(o.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.User != nil || at.Fragment != "" {
		return nil, fmt.Errorf("sending to %q: use a URL such as https://HOST:4318/v1/logs, without a password, which belongs into the file with the headers", redacted(o.URL))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := readSmall(o.CA)
		if err != nil {
			return nil, fmt.Errorf("reading the CA of %s: %w", at.Host, err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading the CA of %s: %s has no certificate: it has to be PEM", at.Host, o.CA)
		}
	}
	c := &client{url: o.URL, host: at.Host, headers: o.Headers, http: &http.Client{
		Timeout: o.Timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: workers,
			MaxConnsPerHost: workers, MaxResponseHeaderBytes: maxResponseHeader, DisableCompression: true, IdleConnTimeout: time.Minute,
		},
		// The headers, and what tenants print, are meant for this destination alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if o.Transport != nil {
		c.http.Transport = o.Transport
	}
	_, err = c.readHeaders()
	return c, err
}

// redacted returns a URL without a password.
func redacted(text string) string {
	if at, err := url.Parse(text); err == nil {
		return at.Redacted()
	}
	return "an invalid URL"
}

// readSmall reads a file of the settings.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxSettings+1))
	if err == nil && len(content) > maxSettings {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSettings)
	}
	return content, err
}

// ownHeaders are the headers that describe the request.
var ownHeaders = []string{"Host", "Content-Type", "Content-Encoding", "Content-Length", "Transfer-Encoding", "Connection"}

// readHeaders reads the headers of requests, a line each. It is called for each request,
// because a Secret can change. Errors don't repeat values.
func (c *client) readHeaders() (http.Header, error) {
	headers := http.Header{}
	if c.headers == "" {
		return headers, nil
	}
	content, err := readSmall(c.headers)
	if err != nil {
		return nil, fmt.Errorf("reading the headers for the destination: %w", err)
	}
	for number, line := range strings.Split(string(content), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || slices.Contains(ownHeaders, name) {
			return nil, fmt.Errorf("reading the headers for the destination: line %d of %s isn't NAME: VALUE, or the header is one that the service sets itself", number+1, c.headers)
		}
		headers.Add(name, value)
	}
	return headers, nil
}

// send sends a request. It returns how many records the destination has refused, and why.
// The error is a refusal or a delay, or that of the context.
func (c *client) send(ctx context.Context, encoded proto.Message) (refused int64, why string, err error) {
	body, err := pack(encoded)
	if err != nil {
		return 0, "", &refusal{err.Error()}
	}
	headers, err := c.readHeaders()
	if err != nil {
		return 0, "", &delay{why: err.Error()}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("sending a request: %w", err)
	}
	r.Header = headers
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "gzip")
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "entrypointer-logs")
	}
	response, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
		return 0, "", &delay{why: err.Error()}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil && response.StatusCode < 300 {
		// It may have taken the records, or not.
		return 0, "", &delay{why: fmt.Sprintf("reading the response: %v", err)}
	}
	return judge(response, answer)
}

// pack encodes and compresses a request.
func pack(encoded proto.Message) ([]byte, error) {
	plain, err := proto.Marshal(encoded)
	if err != nil {
		return nil, fmt.Errorf("encoding a request: %w", err)
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // a valid level
	_, _ = w.Write(plain)                                // into memory
	_ = w.Close()
	return packed.Bytes(), nil
}

// passing are the codes from 400 to 499 after which a request is sent again. By OTLP, it is
// 429 alone; the others say that the service isn't set up as the destination expects, and
// once that is corrected, nothing is lost.
var passing = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired,
	http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
}

// judge says what a response means. Redirects and all codes from 500 on are tried again, for
// the same reason as those that are passing.
func judge(response *http.Response, answer []byte) (refused int64, why string, err error) {
	code := response.StatusCode
	switch {
	case code >= 200 && code < 300:
		var partial logscollector.ExportLogsServiceResponse // that to spans is encoded in the same way
		if isProtobuf(response) && proto.Unmarshal(answer, &partial) == nil {
			return max(0, partial.GetPartialSuccess().GetRejectedLogRecords()), printable(partial.GetPartialSuccess().GetErrorMessage()), nil
		}
		return 0, "", nil
	case code < 400, code >= 500, slices.Contains(passing, code):
		return 0, "", &delay{why: described(response, answer), after: retryAfter(response.Header.Get("Retry-After"), time.Now())}
	default:
		return 0, "", &refusal{described(response, answer)}
	}
}

func isProtobuf(response *http.Response) bool {
	return strings.HasPrefix(response.Header.Get("Content-Type"), "application/x-protobuf")
}

// described returns the code of a response, and what the destination says about it.
func described(response *http.Response, answer []byte) string {
	said := string(answer)
	var s status.Status
	if isProtobuf(response) && proto.Unmarshal(answer, &s) == nil {
		said = s.GetMessage()
	}
	if said = printable(said); said != "" {
		said = ": " + said
	}
	return fmt.Sprintf("HTTP %d%s", response.StatusCode, said)
}

// printable returns the beginning of a destination's words, for logs and records.
func printable(said string) string {
	said = strings.Join(strings.Fields(strings.ToValidUTF8(said[:min(len(said), maxWhy)], "")), " ")
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return -1
	}, said)
}

// retryAfter reads a Retry-After header, in seconds or as a date. What makes no sense counts
// as absent.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
	} else if errors.Is(err, strconv.ErrRange) && !strings.HasPrefix(value, "-") {
		return maxRetryAfter
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
