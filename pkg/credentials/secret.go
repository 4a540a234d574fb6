// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	kauth "github.com/google/go-containerregistry/pkg/authn/kubernetes"
	corev1 "k8s.io/api/core/v1"
)

// maxMatches is the number of entries of one secret that are tried for one registry.
const maxMatches = 16

// maxCandidates is the number of entries that are kept because their hosts may match the
// registry.
const maxCandidates = 256

// matching returns the credentials in a pull secret for a repository, those for the
// longest path first. A keychain answers with the first entry that matches; each entry
// becomes a keychain, because all matching entries are tried. A secret can hold a hundred
// thousand entries: entries for other hosts are skipped.
func matching(secret *corev1.Secret, repository authn.Resource) (found []authn.Authenticator, err error) {
	entries, malformed := entriesFor(secret, repository.RegistryStr())
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(b.key, a.key) })
	for _, e := range entries {
		credential, err := e.resolve(repository)
		switch {
		case err != nil:
			return found, fmt.Errorf("entry %.200q: %w", e.key, err)
		case credential == authn.Anonymous:
			continue
		case len(found) == maxMatches:
			return found, fmt.Errorf("more than %d entries match; the rest was not tried", maxMatches)
		}
		found = append(found, credential)
	}
	return found, malformed
}

// An entry of a pull secret: the registry, and the credential.
type entry struct {
	key   string
	value json.RawMessage
}

func (e entry) resolve(repository authn.Resource) (authn.Authenticator, error) {
	config, err := json.Marshal(map[string]json.RawMessage{e.key: e.value})
	if err != nil {
		return nil, err
	}
	keychain, err := kauth.NewFromPullSecrets(context.Background(), []corev1.Secret{{
		Type: corev1.SecretTypeDockercfg,
		Data: map[string][]byte{corev1.DockerConfigKey: config},
	}})
	if err != nil {
		return nil, err
	}
	return keychain.Resolve(repository)
}

// entriesFor reads the entries of a secret that may match a host.
func entriesFor(secret *corev1.Secret, host string) ([]entry, error) {
	read := entries{host: host}
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		file := struct{ Auths *entries }{&read}
		err = json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &file)
	case corev1.SecretTypeDockercfg:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &read)
	default:
		err = fmt.Errorf("its type is %q, not %q", secret.Type, corev1.SecretTypeDockerConfigJson)
	}
	return read.list, err
}

// entries decodes the entries that may match a host, one after the other.
type entries struct {
	host string
	list []entry
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *entries) UnmarshalJSON(object []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	begin, err := decoder.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('{') {
		return fmt.Errorf("there is %v where an object was expected", begin)
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		key := canonical(token.(string))
		if !mayMatch(key, e.host) {
			continue
		}
		// If a key occurs twice, the last entry counts.
		e.list = slices.DeleteFunc(e.list, func(before entry) bool { return before.key == key })
		if len(e.list) == maxCandidates {
			return fmt.Errorf("more than %d entries may be for registry %q; the rest was not looked at", maxCandidates, e.host)
		}
		e.list = append(e.list, entry{key: key, value: value})
	}
	return nil
}

// canonical returns the library's name of Docker Hub for one that the kubelet
// and docker login accept as well.
func canonical(key string) string {
	if key == "docker.io" || strings.HasPrefix(key, "docker.io/") {
		return "index." + key
	}
	return key
}

// mayMatch is a cheap test whether an entry may match a host. The library decides whether
// it does.
func mayMatch(key, host string) bool {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	pattern, _, _ := strings.Cut(key, "/")
	pattern = pattern[strings.LastIndex(pattern, "@")+1:]
	if strings.EqualFold(pattern, host) {
		return true
	}
	if !strings.ContainsAny(pattern, "*?[\\") {
		return false
	}
	matches, err := path.Match(withoutPort(pattern), withoutPort(host))
	return matches || err != nil
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return (&url.URL{Host: host}).Hostname()
}
