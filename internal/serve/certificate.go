// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"crypto/tls"
	"sync"
	"time"
)

// Overlap is how long a server goes on with its former certificate when there is
// a new one: long enough for API servers to have heard of the CA of the new one.
const Overlap = 30 * time.Second

// Certificates serves the certificate that Read returns. When that changes, the
// former one is served for the Overlap; when it can't be read, for as long as
// it is valid. The zero value of the other fields is ready to use.
type Certificates struct {
	Read func() (*tls.Certificate, error)

	now func() time.Time // tests change it

	mu      sync.Mutex
	serving *tls.Certificate
	next    *tls.Certificate
	since   time.Time
}

// Get is the GetCertificate of a tls.Config. Its error is Read's, if there is
// no certificate yet.
func (c *Certificates) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	read, err := c.Read()
	now := time.Now()
	if c.now != nil {
		now = c.now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	valid := c.serving != nil && now.Before(c.serving.Leaf.NotAfter)
	switch {
	case err != nil && valid:
		return c.serving, nil
	case err != nil:
		return nil, err
	case !valid || same(read, c.serving):
		c.serving, c.next = read, nil
	case c.next == nil || !same(read, c.next):
		c.next, c.since = read, now
	case now.Sub(c.since) >= Overlap:
		c.serving, c.next = read, nil
	}
	return c.serving, nil
}

func same(a, b *tls.Certificate) bool { return bytes.Equal(a.Certificate[0], b.Certificate[0]) }
