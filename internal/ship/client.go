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
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// What the service can answer that asks for something else than to try again.
var (
	errNoStream = errors.New("the log service has no such stream")
	errRefused  = errors.New("the log service won't take it")
)

const (
	// requestTimeout bounds a request, its body and its answer.
	requestTimeout = 20 * time.Second
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 4096
	// worthIt is from how many bytes on a body is compressed.
	worthIt = 512
)

// A client sends requests to the log service, several at a time. What they have is
// packed by one goroutine.
type client struct {
	address, token, container, start string
	labels                           labels

	http   *http.Client
	packer *gzip.Writer
	spare  []*bytes.Buffer // to pack into
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
	packer, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // a level that there is
	return &client{
		address: service.Address, token: o.token, container: o.container, start: o.start, labels: o.labels, packer: packer,
		http: &http.Client{
			Timeout: requestTimeout,
			Transport: &http.Transport{
				// No proxy: those of the environment are the command's.
				DialTLSContext:     dialer.dial,
				MaxIdleConns:       atOnce,
				IdleConnTimeout:    time.Minute,
				DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// create makes a stream, or finds it, and returns its ID.
func (c *client) create(name string) (id string, err error) {
	declaration := map[string]any{"name": name, "container": c.container, "start": c.start}
	if len(c.labels) > 0 {
		declaration["labels"] = c.labels
	}
	body, err := json.Marshal(declaration)
	if err != nil {
		return "", err
	}
	answer, err := c.do(request{method: http.MethodPost, path: "/logs", contentType: "application/json", body: body})
	if err != nil {
		return "", fmt.Errorf("making stream %s: %w", name, err)
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(answer, &made); err != nil || made.ID == "" {
		return "", fmt.Errorf("making stream %s: the answer is %.100q", name, answer)
	}
	return made.ID, nil
}

// patch stores bytes at an offset, which were packed.
func (c *client) patch(id string, from, length int64, packed []byte, encoding string) error {
	return c.send(request{
		method: http.MethodPatch, path: "/logs/" + id + "/data", contentType: "application/octet-stream",
		contentRange: fmt.Sprintf("bytes %d-%d/*", from, from+length-1), body: packed, encoding: encoding,
	})
}

// end says how long the stream is.
func (c *client) end(id string, total int64) error {
	return c.send(request{method: http.MethodPatch, path: "/logs/" + id + "/data", contentRange: fmt.Sprintf("bytes */%d", total)})
}

// drop marks bytes that will never come.
func (c *client) drop(id string, from, length int64) error {
	body := fmt.Appendf(nil, `{"range":"bytes %d-%d/*","markers":["dropped"]}`, from, from+length-1)
	return c.send(request{method: http.MethodPost, path: "/logs/" + id + "/markers", contentType: "application/json", body: body})
}

func (c *client) send(r request) error {
	_, err := c.do(r)
	return err
}

type request struct {
	method, path, contentType, contentRange, encoding string
	body                                              []byte
}

// do sends a request once, and returns the beginning of the answer.
func (c *client) do(r request) (answer []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s %s%s: %w", r.method, c.address, r.path, err)
		}
	}()
	sent, err := c.request(r)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(sent)
	if err != nil {
		return nil, errors.Unwrap(err) // which has said where to already
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return answer, c.judge(response, answer)
}

func (c *client) request(r request) (*http.Request, error) {
	sent, err := http.NewRequestWithContext(context.Background(), r.method, c.address+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	// The kubelet puts another one there before it expires.
	token, err := os.ReadFile(c.token)
	if err != nil {
		return nil, fmt.Errorf("reading the token of the pod: %w", err)
	}
	sent.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	for name, value := range map[string]string{"Content-Type": r.contentType, "Content-Range": r.contentRange, "Content-Encoding": r.encoding} {
		if value != "" {
			sent.Header.Set(name, value)
		}
	}
	return sent, nil
}

// pack compresses bytes, if that is worth it or it is known when they came, which is in
// the header of the gzip member.
func (c *client) pack(data []byte, from int64, marks []times.Mark) (packed *bytes.Buffer, encoding string) {
	packed = &bytes.Buffer{}
	if last := len(c.spare) - 1; last >= 0 {
		packed, c.spare = c.spare[last], c.spare[:last]
		packed.Reset()
	}
	if len(data) < worthIt && len(marks) == 0 {
		_, _ = packed.Write(data)
		return packed, ""
	}
	c.packer.Reset(packed)
	c.packer.Extra = times.Encode(from, marks)
	_, _ = c.packer.Write(data) // into memory
	_ = c.packer.Close()
	return packed, "gzip"
}

// reuse takes back what pack has returned, if it is no longer sent.
func (c *client) reuse(packed *bytes.Buffer) {
	if packed != nil && len(c.spare) < atOnce {
		c.spare = append(c.spare, packed)
	}
}

// judge tells from an answer what to do next.
func (c *client) judge(response *http.Response, answer []byte) error {
	if response.StatusCode < 300 {
		return nil
	}
	text := fmt.Sprintf("the log service answers %s: %.300s", response.Status, bytes.TrimSpace(answer))
	switch code := response.StatusCode; {
	case code == http.StatusNotFound:
		return fmt.Errorf("%w: %s", errNoStream, text)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
	case code >= 400 && code < 500:
		return fmt.Errorf("%w: %s", errRefused, text)
	}
	return &again{text: text, after: retryAfter(response.Header.Get("Retry-After"), time.Now())}
}
