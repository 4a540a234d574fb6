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

// A trust is the content of the ConfigMap.
type trust struct {
	roots *x509.CertPool
	names []string // allowed common names; an empty list allows all
	// The names of headers. For users and UIDs, the first header with a value counts.
	users, uids, groups, extraPrefixes []string
}

// parseTrust parses the data of the ConfigMap.
func parseTrust(data map[string]string) (*trust, error) {
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
			return nil, fmt.Errorf("%q isn't a list: %w", key, err)
		}
	}
	if len(t.users) == 0 {
		return nil, errors.New(`"requestheader-username-headers" names no header`)
	}
	return t, nil
}

// user returns the user that headers name. Call it only after verify.
func (t *trust) user(headers http.Header) (api.User, error) {
	user := api.User{Name: firstHeader(headers, t.users), UID: firstHeader(headers, t.uids), Extra: map[string][]string{}}
	if user.Name == "" {
		return user, fmt.Errorf("reading the user of a request: the headers %q are empty: %w", t.users, api.ErrNotProxy)
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

// firstHeader returns the first value among some headers.
func firstHeader(headers http.Header, names []string) string {
	for _, name := range names {
		if value := headers.Get(name); value != "" {
			return value
		}
	}
	return ""
}

// extraKey decodes the key of a user's extra value from the name of a header. HTTP
// ignores the case of header names, so keys are in lower case, and characters that a
// header name can't have are percent-encoded.
func extraKey(escaped string) string {
	escaped = strings.ToLower(escaped)
	if key, err := url.PathUnescape(escaped); err == nil {
		return key
	}
	return escaped
}
