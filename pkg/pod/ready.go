// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// readyWhenFlags has none: they are for containers on whose being ready another one
// depends, see [wrapping.readyFlags].
func readyWhenFlags(value string, _ target) ([]string, error) {
	_, err := parseReadyWhen(value)
	return nil, err
}

// parseReadyWhen makes flags of a value of the option ready-when.
func parseReadyWhen(value string) ([]string, error) {
	wrong := canBe(`a command as JSON, ["program", "argument"], tcp://:PORT, http://:PORT/PATH, or file:///PATH; an IP address may stand before the port`)
	value = strings.TrimSpace(value)
	kind, rest, _ := strings.Cut(value, "://")
	switch kind {
	case "file":
		if absolutePath(rest) != nil {
			return nil, wrong
		}
		return []string{readyFileFlag + escape(rest)}, nil
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
		return []string{readyHTTPFlag + "http://" + at + escape(u.RequestURI())}, nil
	}
	var argv []string
	if json.Unmarshal([]byte(value), &argv) != nil || len(argv) == 0 || argv[0] == "" || strings.Contains(strings.Join(argv, ""), "\x00") {
		return nil, wrong
	}
	return prefixed(readyExecFlag, escapeAll(argv)), nil
}

func prefixed(flag string, words []string) (flags []string) {
	for _, word := range words {
		flags = append(flags, flag+word)
	}
	return flags
}

// address is HOST:PORT, of an IP address or an empty host, which stands for the pod
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

// readyFlags are those by which a container finds out that it is ready: by its
// ready-when, or as its readinessProbe says.
func (w *wrapping) readyFlags(c *corev1.Container) ([]string, error) {
	key := readyWhenOption + "." + domain + "/" + c.Name
	if value, set := w.pod.Annotations[key]; set {
		flags, err := parseReadyWhen(value)
		if err != nil {
			return nil, refuse(InvalidAnnotation, "reading annotation %s: %q is wrong; %w", key, value, err)
		}
		return flags, nil
	}
	flags, err := probeFlags(c)
	if err != nil {
		return nil, refuse(InvalidAnnotation, "finding out when container %q is ready, which others wait for: %w; set annotation %s", c.Name, err, key)
	}
	return flags, nil
}

// probeFlags make a container's readinessProbe one that the entrypoint does. Of its
// times, only the longest that a try may take counts. As the kubelet does, it leaves
// $(NAME) in a command to be replaced.
func probeFlags(c *corev1.Container) (flags []string, err error) {
	p := c.ReadinessProbe
	switch {
	case p == nil:
		return nil, errors.New("it has no readinessProbe")
	case p.Exec != nil && len(p.Exec.Command) > 0:
		flags = prefixed(readyExecFlag, p.Exec.Command)
	case p.TCPSocket != nil:
		at, err := portOf(c, p.TCPSocket.Host, p.TCPSocket.Port)
		if err != nil {
			return nil, err
		}
		flags = []string{readyTCPFlag + at}
	case p.HTTPGet != nil:
		if flags, err = httpFlags(c, p.HTTPGet); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("its readinessProbe is neither exec, tcpSocket nor httpGet")
	}
	if p.TimeoutSeconds > 1 {
		flags = append(flags, readyTimeoutFlag+(time.Duration(p.TimeoutSeconds)*time.Second).String())
	}
	return flags, nil
}

func httpFlags(c *corev1.Container, get *corev1.HTTPGetAction) ([]string, error) {
	if get.Scheme != "" && get.Scheme != corev1.URISchemeHTTP {
		return nil, errors.New("its readinessProbe asks by HTTPS, whose certificate the entrypoint can't check")
	}
	at, err := portOf(c, get.Host, get.Port)
	if err != nil {
		return nil, err
	}
	// As the kubelet does (formatURL in https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/probe/http/request.go).
	u, err := url.Parse(get.Path)
	if err != nil {
		u = &url.URL{Path: get.Path}
	}
	path := (&url.URL{Path: "/" + strings.TrimPrefix(u.Path, "/"), RawQuery: u.RawQuery}).RequestURI()
	if strings.ContainsFunc(path, unicode.IsSpace) || strings.ContainsFunc(path, unicode.IsControl) {
		return nil, errors.New("its readinessProbe has a path that can't be sent")
	}
	flags := []string{readyHTTPFlag + "http://" + at + escape(path)}
	for _, header := range get.HTTPHeaders {
		line := header.Name + ": " + header.Value
		if len(validation.IsHTTPHeaderName(header.Name)) > 0 || strings.ContainsFunc(header.Value, unicode.IsControl) {
			return nil, errors.New("its readinessProbe has a header that can't be sent")
		}
		flags = append(flags, readyHTTPHeaderFlag+escape(line))
	}
	return flags, nil
}

// portOf is where a probe looks.
func portOf(c *corev1.Container, host string, port intstr.IntOrString) (string, error) {
	number := port.String()
	if port.Type == intstr.String {
		if at := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal }); at >= 0 {
			number = strconv.Itoa(int(c.Ports[at].ContainerPort))
		}
	}
	at, ok := address(host, number, nil)
	if !ok {
		return "", errors.New("its readinessProbe names a host that isn't an IP address, or a port that the container hasn't")
	}
	return at, nil
}
