// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"encoding/json"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// parseReadyWhen turns a value of the option ready-when into flags.
func parseReadyWhen(value string) ([]string, error) {
	wrong := text.CanBe(`a command as JSON, ["program", "argument"], tcp://:PORT, http://:PORT/PATH, or file:///PATH; an IP address may stand before the port`)
	value = strings.TrimSpace(value)
	kind, rest, _ := strings.Cut(value, "://")
	switch kind {
	case "file":
		if !text.IsAbsolutePath(rest) {
			return nil, wrong
		}
		return []string{readyFileFlag + text.Escape(rest)}, nil
	case "tcp":
		at, ok := address(net.SplitHostPort(rest))
		if !ok {
			return nil, wrong
		}
		return []string{readyTCPFlag + at}, nil
	case "http":
		u, err := url.Parse(value)
		if err != nil || u.User != nil || u.Fragment != "" || strings.ContainsFunc(u.RequestURI(), unicode.IsSpace) {
			return nil, wrong
		}
		at, ok := address(u.Hostname(), u.Port(), nil)
		if !ok {
			return nil, wrong
		}
		return []string{readyHTTPFlag + "http://" + at + text.Escape(u.RequestURI())}, nil
	}
	var argv []string
	if json.Unmarshal([]byte(value), &argv) != nil || len(argv) == 0 || argv[0] == "" || strings.Contains(strings.Join(argv, ""), "\x00") {
		return nil, wrong
	}
	return prefixed(readyExecFlag, text.EscapeAll(argv)), nil
}

func prefixed(flag string, words []string) (flags []string) {
	for _, word := range words {
		flags = append(flags, flag+word)
	}
	return flags
}

// address returns HOST:PORT for an IP address or an empty host, which stands for the pod
// itself.
func address(host, port string, err error) (_ string, ok bool) {
	if number, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || number == 0 {
		return "", false
	}
	if ip, wrong := netip.ParseAddr(host); host != "" && (wrong != nil || ip.Zone() != "") {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

// readyFlags returns the flags by which the supervisor determines that its container is
// ready: by ready-when, or by the readinessProbe.
func (b *builder) readyFlags(c *corev1.Container) ([]string, error) {
	key := annotation.For(ReadyWhen, c.Name)
	if value, set := b.Object.Annotations[key]; set {
		flags, err := parseReadyWhen(value)
		if err != nil {
			return nil, text.Errorf("reading annotation %s: %q is wrong; %w", key, value, err)
		}
		return flags, nil
	}
	flags, err := probeFlags(c, c.ReadinessProbe, readinessProbe)
	if err != nil {
		return nil, text.Errorf("determining when container %q is ready, for which other containers wait: %w; set annotation %s", c.Name, err, key)
	}
	return flags, nil
}
