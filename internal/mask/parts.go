// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// maxDocument is the length of the longest secret that is searched for secrets inside of
// it, in bytes.
const maxDocument = 64 << 10

// secretNames are parts of the names of values that are secrets by themselves, in lower
// case and without separators. Other values, such as a host or a stage, occur in other
// places as well.
var secretNames = []string{"pass", "pwd", "secret", "token", "privatekey", "credential", "apikey", "accesskey", "clientkey", "connectionstring"}

func isSecretName(name string) bool {
	name = strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(name, part) })
}

// Parts returns the secrets inside of a secret, which programs print without the rest: in
// JSON (.dockerconfigjson, the key of a service account of Google) and in lines of
// NAME=VALUE (.env), the values whose names say that they are secrets; and the passwords
// of URLs.
func Parts(secret []byte) [][]byte {
	if len(secret) > maxDocument {
		return nil
	}
	var p parts
	var document map[string]any
	if text := bytes.TrimSpace(secret); len(text) > 0 && text[0] == '{' && json.Unmarshal(text, &document) == nil {
		p.addJSON("", document)
		return p
	}
	for line := range bytes.Lines(secret) {
		p.addLine(strings.TrimSpace(string(line)))
	}
	return p
}

// parts are secrets that were found in another.
type parts [][]byte

func (p *parts) add(value string) {
	if len(value) >= minSecret {
		*p = append(*p, []byte(value))
	}
}

// addJSON adds the secrets of a value of JSON, which has a name in its object.
func (p *parts) addJSON(name string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			p.addJSON(name, member)
		}
	case []any:
		for _, element := range value {
			p.addJSON(name, element)
		}
	case string:
		if name == "auth" {
			p.addAuth(value)
		} else {
			p.addNamed(name, value)
		}
	}
}

// addAuth adds the base64 of USER:PASSWORD, as registries have it, and the password.
func (p *parts) addAuth(auth string) {
	p.add(auth)
	user, err := base64.StdEncoding.DecodeString(auth)
	if _, password, found := strings.Cut(string(user), ":"); err == nil && found {
		p.add(password)
	}
}

// addLine adds the secrets of a line: NAME=VALUE, as a shell reads it, or a URL.
func (p *parts) addLine(line string) {
	name, value, found := strings.Cut(strings.TrimPrefix(line, "export "), "=")
	if !found || strings.ContainsAny(name, " /:") {
		p.addPassword(line)
		return
	}
	for _, quote := range []string{`"`, "'"} {
		if len(value) > 1 && strings.HasPrefix(value, quote) && strings.HasSuffix(value, quote) {
			value = value[1 : len(value)-1]
		}
	}
	p.addNamed(name, value)
}

func (p *parts) addNamed(name, value string) {
	if isSecretName(name) {
		p.add(value)
	}
	p.addPassword(value)
}

// addPassword adds the password of a URL, as it is written and as it is meant.
func (p *parts) addPassword(text string) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme == "" || strings.ContainsAny(scheme, " \t") {
		return
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return
	}
	_, written, found := strings.Cut(rest[:at], ":")
	if !found {
		return
	}
	p.add(written)
	if meant, err := url.PathUnescape(written); err == nil && meant != written {
		p.add(meant)
	}
}
