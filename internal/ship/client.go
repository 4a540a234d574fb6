// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// Responses for which sending the same request again is of no use.
var (
	errNoStream = errors.New("the log service has no such stream")
	errRefused  = errors.New("the log service has refused it")
)

const (
	// maxAnswer bounds the part of a response body that is read, in bytes.
	maxAnswer = 4096
	// minCompressed is the size from which a body is compressed, in bytes.
	minCompressed = 512
)

// A client sends requests to the log service, several at a time. Only one goroutine may
// call compress and recycle.
type client struct {
	address, token, container, start string
	labels                           labels

	http         *http.Client
	compressor   *gzip.Writer
	spareBuffers []*bytes.Buffer // of sent bodies, for reuse
}

func newClient(o *options) (*client, error) {
	service, err := endpoint.New(o.address, o.ip, o.authority)
	if err != nil {
		return nil, err
	}
	trusting, err := service.TLS()
	if err != nil {
		return nil, err
	}
	dialer := &dialer{ip: service.IP, tls: trusting}
	packer, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // a valid level, so no error
	return &client{
		address: service.Address, token: o.token, container: o.container, start: o.start, labels: o.labels, compressor: packer,
		http: &http.Client{
			Timeout: retries.RequestTimeout,
			Transport: &http.Transport{
				// No proxy: HTTPS_PROXY and the like are meant for the command.
				DialTLSContext:     dialer.dial,
				MaxIdleConns:       maxInFlight,
				IdleConnTimeout:    time.Minute,
				DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// create creates a stream, or finds the existing one, and returns its ID.
func (c *client) create(name string) (id string, err error) {
	declaration := map[string]any{"name": name, "container": c.container, "start": c.start}
	if len(c.labels) > 0 {
		declaration["labels"] = c.labels
	}
	body, err := json.Marshal(declaration)
	if err != nil {
		return "", err
	}
	answer, _, err := c.do(request{method: http.MethodPost, path: "/logs", contentType: "application/json", body: body})
	if err != nil {
		return "", fmt.Errorf("creating stream %q: %w", name, err)
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(answer, &made); err != nil || made.ID == "" {
		return "", fmt.Errorf("creating stream %q: the response %.100q has no ID", name, answer)
	}
	return made.ID, nil
}

// patch stores a body at an offset. The length is that before compression.
func (c *client) patch(id string, from, length int64, packed []byte, encoding string) (linger time.Duration, err error) {
	return c.send(request{
		method: http.MethodPatch, path: "/logs/" + id + "/data", contentType: "application/octet-stream",
		contentRange: fmt.Sprintf("bytes %d-%d/*", from, from+length-1), body: packed, encoding: encoding,
	})
}

// end tells the service the length of the stream.
func (c *client) end(id string, total int64) (linger time.Duration, err error) {
	return c.send(request{method: http.MethodPatch, path: "/logs/" + id + "/data", contentRange: fmt.Sprintf("bytes */%d", total)})
}

// drop marks a range as dropped.
func (c *client) drop(id string, from, length int64) (linger time.Duration, err error) {
	body := fmt.Appendf(nil, `{"range":"bytes %d-%d/*","markers":["dropped"]}`, from, from+length-1)
	return c.send(request{method: http.MethodPost, path: "/logs/" + id + "/markers", contentType: "application/json", body: body})
}

func (c *client) send(r request) (linger time.Duration, err error) {
	_, header, err := c.do(r)
	return parseLinger(header.Get(retries.LingerHeader)), err
}

// parseLinger parses a LingerHeader. Services of former releases send none.
func parseLinger(value string) time.Duration {
	seconds, err := strconv.Atoi(value)
	if err != nil || seconds < 0 {
		return retries.ShortestLinger
	}
	seconds = min(seconds, int(retries.LongestLinger/time.Second))
	return max(time.Duration(seconds)*time.Second, retries.ShortestLinger)
}

type request struct {
	method, path, contentType, contentRange, encoding string
	body                                              []byte
}

// do sends a request once, and returns the first maxAnswer bytes of the response body.
func (c *client) do(r request) (answer []byte, header http.Header, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s %s%s: %w", r.method, c.address, r.path, err)
		}
	}()
	sent, err := c.request(r)
	if err != nil {
		return nil, nil, err
	}
	response, err := c.http.Do(sent)
	if err != nil {
		return nil, nil, errors.Unwrap(err) // the outer error repeats the method and the URL
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the response: %w", err)
	}
	return answer, response.Header, c.statusError(response, answer)
}

func (c *client) request(r request) (*http.Request, error) {
	sent, err := http.NewRequestWithContext(context.Background(), r.method, c.address+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	// The kubelet replaces the token before it expires, so no copy is kept.
	token, err := os.ReadFile(c.token)
	if err != nil {
		return nil, fmt.Errorf("reading the pod's token: %w", err)
	}
	sent.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	for name, value := range map[string]string{"Content-Type": r.contentType, "Content-Range": r.contentRange, "Content-Encoding": r.encoding} {
		if value != "" {
			sent.Header.Set(name, value)
		}
	}
	return sent, nil
}

// compress returns the body of a part. Small bodies stay uncompressed, unless there are
// times to send: these are in the header of the gzip member.
func (c *client) compress(data []byte, from int64, marks []times.Mark) (packed *bytes.Buffer, encoding string) {
	packed = &bytes.Buffer{}
	if last := len(c.spareBuffers) - 1; last >= 0 {
		packed, c.spareBuffers = c.spareBuffers[last], c.spareBuffers[:last]
		packed.Reset()
	}
	if len(data) < minCompressed && len(marks) == 0 {
		_, _ = packed.Write(data)
		return packed, ""
	}
	c.compressor.Reset(packed)
	c.compressor.Extra = times.Encode(from, marks)
	_, _ = c.compressor.Write(data) // into memory
	_ = c.compressor.Close()        // into memory
	return packed, "gzip"
}

// recycle takes back a buffer from compress after its part is done.
func (c *client) recycle(packed *bytes.Buffer) {
	if packed != nil && len(c.spareBuffers) < maxInFlight {
		c.spareBuffers = append(c.spareBuffers, packed)
	}
}

// statusError returns the error of a response: errNoStream, errRefused or a retryError.
func (c *client) statusError(response *http.Response, answer []byte) error {
	if response.StatusCode < 300 {
		return nil
	}
	text := fmt.Sprintf("the log service responded %s: %.300s", response.Status, bytes.TrimSpace(answer))
	switch code := response.StatusCode; {
	case code == http.StatusNotFound:
		return fmt.Errorf("%w: %s", errNoStream, text)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
	case code >= 400 && code < 500:
		return fmt.Errorf("%w: %s", errRefused, text)
	}
	return &retryError{text: text, wait: parseRetryAfter(response.Header.Get("Retry-After"), time.Now())}
}
