// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package frontproxy

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/entrypointer/entrypointer/internal/logs/api"
)

// A trust is what the ConfigMap says.
type trust struct {
	roots *x509.CertPool
	names []string // common names of certificates; without any, all that the CA has signed
	// The names of headers. Of users and UIDs, the first that is there counts.
	users, uids, groups, extraPrefixes []string
}

// trustOf reads the data of the ConfigMap.
func trustOf(data map[string]string) (*trust, error) {
	const ca = "requestheader-client-ca-file"
	t := &trust{roots: x509.NewCertPool()}
	if !t.roots.AppendCertsFromPEM([]byte(data[ca])) {
		return nil, fmt.Errorf("%q has no certificate", ca)
	}
	for key, list := range map[string]*[]string{
		"requestheader-allowed-names":        &t.names,
		"requestheader-username-headers":     &t.users,
		"requestheader-uid-headers":          &t.uids,
		"requestheader-group-headers":        &t.groups,
		"requestheader-extra-headers-prefix": &t.extraPrefixes,
	} {
		if data[key] == "" {
			continue
		}
		if err := json.Unmarshal([]byte(data[key]), list); err != nil {
			return nil, fmt.Errorf("%q is no list: %w", key, err)
		}
	}
	if len(t.users) == 0 {
		return nil, errors.New(`"requestheader-username-headers" names no header`)
	}
	return t, nil
}

// user is whom headers speak of. They are those of a client that was verified.
func (t *trust) user(headers http.Header) (api.User, error) {
	user := api.User{Name: first(headers, t.users), UID: first(headers, t.uids), Extra: map[string][]string{}}
	if user.Name == "" {
		return user, fmt.Errorf("a request of the API server's that says nobody's name in %q: %w", t.users, api.ErrNotProxy)
	}
	for _, name := range t.groups {
		user.Groups = append(user.Groups, headers.Values(name)...)
	}
	for name, values := range headers {
		for _, prefix := range t.extraPrefixes {
			if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
				key := extraKey(name[len(prefix):])
				user.Extra[key] = append(user.Extra[key], values...)
				break
			}
		}
	}
	return user, nil
}

// first is the value of the first header that is there.
func first(headers http.Header, names []string) string {
	for _, name := range names {
		if value := headers.Get(name); value != "" {
			return value
		}
	}
	return ""
}

// extraKey is what the rest of a header's name stands for. In HTTP, capitals mean
// nothing, so that keys are small, and what no header's name can have is escaped.
func extraKey(escaped string) string {
	escaped = strings.ToLower(escaped)
	if key, err := url.PathUnescape(escaped); err == nil {
		return key
	}
	return escaped
}
