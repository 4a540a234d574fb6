// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"container/list"
	"sync"
	"time"
)

// A Cache keeps values for a limited time, up to a total size in bytes. Each value
// belongs to the tenant for which it was kept. A tenant that exceeds its share loses its
// own oldest values, never those of another tenant.
type Cache[V any] struct {
	size, share int // bytes

	mu      sync.Mutex
	used    int
	values  map[string]*list.Element // of *entry[V]
	tenants map[string]*tenantValues
}

// tenantValues are the values of one tenant, the most recently used first.
type tenantValues struct {
	list.List

	used int
}

type entry[V any] struct {
	key, tenant string
	value       V
	bytes       int
	expires     time.Time
}

// NewCache returns a Cache of a size, with a share for each tenant, in bytes.
func NewCache[V any](size, share int) *Cache[V] {
	return &Cache[V]{size: size, share: share, values: map[string]*list.Element{}, tenants: map[string]*tenantValues{}}
}

// Get returns the value of the key, for whichever tenant it was kept.
func (c *Cache[V]) Get(key string) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.values[key]
	if !ok {
		return value, false
	}
	found := element.Value.(*entry[V])
	if !time.Now().Before(found.expires) {
		c.remove(element)
		return value, false
	}
	c.tenants[found.tenant].MoveToFront(element)
	return found.value, true
}

// entryBytes is the overhead of a value: two maps and a list, measured roughly.
const entryBytes = 512

// Add keeps a value that takes the given bytes of memory. A value that exceeds the
// tenant's share isn't kept.
func (c *Cache[V]) Add(tenant, key string, value V, bytes int, ttl time.Duration) {
	bytes += len(key) + len(tenant) + entryBytes
	if bytes > c.share {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.values[key]; ok {
		c.remove(before)
	}
	own, ok := c.tenants[tenant]
	if !ok {
		own = &tenantValues{}
		c.tenants[tenant] = own
	}
	c.values[key] = own.PushFront(&entry[V]{key: key, tenant: tenant, value: value, bytes: bytes, expires: time.Now().Add(ttl)})
	own.used += bytes
	c.used += bytes
	for own.used > c.share {
		c.remove(own.Back())
	}
	for c.used > c.size {
		c.remove(c.greediest().Back())
	}
}

// greediest returns the tenant that keeps most.
func (c *Cache[V]) greediest() *tenantValues {
	var most *tenantValues
	for _, own := range c.tenants {
		if most == nil || own.used > most.used {
			most = own
		}
	}
	return most
}

func (c *Cache[V]) remove(element *list.Element) {
	gone := element.Value.(*entry[V])
	own := c.tenants[gone.tenant]
	own.Remove(element)
	own.used -= gone.bytes
	c.used -= gone.bytes
	delete(c.values, gone.key)
	if own.Len() == 0 {
		delete(c.tenants, gone.tenant)
	}
}
