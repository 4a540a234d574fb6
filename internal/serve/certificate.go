// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"crypto/tls"
	"sync"
	"time"
)

// Overlap is the time for which a server still serves its former certificate after a
// renewal: long enough for API servers to learn of the new certificate's CA.
const Overlap = 30 * time.Second

// Certificates serves the certificate that Read returns. After a change, it serves the
// former certificate for the Overlap; while Read fails, or returns one that has expired or
// isn't valid yet, for as long as the former certificate is valid. The zero value of the
// other fields is ready to use.
type Certificates struct {
	Read func() (*tls.Certificate, error)

	now func() time.Time // replaced by tests

	mu      sync.Mutex
	serving *tls.Certificate
	next    *tls.Certificate
	since   time.Time
}

// Get is the GetCertificate of a tls.Config. If there is no certificate yet, Get returns
// Read's error.
func (c *Certificates) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	read, err := c.Read()
	now := time.Now()
	if c.now != nil {
		now = c.now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	valid := isValid(c.serving, now)
	switch {
	case valid && (err != nil || !isValid(read, now)):
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

// isValid reports whether API servers accept a certificate at a time, if its clock is theirs.
func isValid(certificate *tls.Certificate, now time.Time) bool {
	return certificate != nil && now.Before(certificate.Leaf.NotAfter) && !now.Before(certificate.Leaf.NotBefore)
}

func same(a, b *tls.Certificate) bool { return bytes.Equal(a.Certificate[0], b.Certificate[0]) }
