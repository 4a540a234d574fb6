// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// A probeKind is one of a container's probes, with the supervisor's flags for it.
type probeKind struct {
	name                             string
	exec, tcp, http, header, timeout string // timeout is "" if the supervisor sets it
}

var (
	readinessProbe = probeKind{"readinessProbe", readyExecFlag, readyTCPFlag, readyHTTPFlag, readyHTTPHeaderFlag, readyTimeoutFlag}
	livenessProbe  = probeKind{"livenessProbe", aliveExecFlag, aliveTCPFlag, aliveHTTPFlag, aliveHTTPHeaderFlag, ""}
	startupProbe   = probeKind{"startupProbe", startupExecFlag, startupTCPFlag, startupHTTPFlag, startupHTTPHeaderFlag, startupTimeoutFlag}
)

// probeFlags turns a container's probe into flags, by which the supervisor runs it. Of
// the probe's times, only timeoutSeconds counts. Like the kubelet, the supervisor
// replaces $(NAME) in a command.
func probeFlags(c *corev1.Container, p *corev1.Probe, kind probeKind) (flags []string, err error) {
	switch {
	case p == nil:
		return nil, errors.New("it has no " + kind.name)
	case p.Exec != nil && len(p.Exec.Command) > 0:
		flags = prefixed(kind.exec, p.Exec.Command)
	case p.TCPSocket != nil:
		at, err := kind.portOf(c, p.TCPSocket.Host, p.TCPSocket.Port)
		if err != nil {
			return nil, err
		}
		flags = []string{kind.tcp + at}
	case p.HTTPGet != nil:
		if flags, err = kind.httpFlags(c, p.HTTPGet); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("its " + kind.name + " is neither exec, tcpSocket nor httpGet")
	}
	if p.TimeoutSeconds > 1 && kind.timeout != "" {
		flags = append(flags, kind.timeout+seconds(p.TimeoutSeconds))
	}
	return flags, nil
}

func seconds(n int32) string { return (time.Duration(n) * time.Second).String() }

func (kind probeKind) httpFlags(c *corev1.Container, get *corev1.HTTPGetAction) ([]string, error) {
	if get.Scheme != "" && get.Scheme != corev1.URISchemeHTTP {
		return nil, errors.New("its " + kind.name + " uses HTTPS, whose certificate the supervisor can't check")
	}
	at, err := kind.portOf(c, get.Host, get.Port)
	if err != nil {
		return nil, err
	}
	// As the kubelet does (formatURL in
	// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/probe/http/request.go).
	u, err := url.Parse(get.Path)
	if err != nil {
		u = &url.URL{Path: get.Path}
	}
	path := (&url.URL{Path: "/" + strings.TrimPrefix(u.Path, "/"), RawQuery: u.RawQuery}).RequestURI()
	if strings.ContainsFunc(path, unicode.IsSpace) || strings.ContainsFunc(path, unicode.IsControl) {
		return nil, errors.New("its " + kind.name + " has a path that can't be sent")
	}
	flags := []string{kind.http + "http://" + at + text.Escape(path)}
	for _, header := range get.HTTPHeaders {
		line := header.Name + ": " + header.Value
		if len(validation.IsHTTPHeaderName(header.Name)) > 0 || strings.ContainsFunc(header.Value, unicode.IsControl) {
			return nil, errors.New("its " + kind.name + " has a header that can't be sent")
		}
		flags = append(flags, kind.header+text.Escape(line))
	}
	return flags, nil
}

// portOf returns the address that a probe connects to.
func (kind probeKind) portOf(c *corev1.Container, host string, port intstr.IntOrString) (string, error) {
	number := port.String()
	if port.Type == intstr.String {
		if at := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal }); at >= 0 {
			number = strconv.Itoa(int(c.Ports[at].ContainerPort))
		}
	}
	at, ok := address(host, number, nil)
	if !ok {
		return "", errors.New("its " + kind.name + " names a host that isn't an IP address, or a port that the container doesn't declare")
	}
	return at, nil
}
