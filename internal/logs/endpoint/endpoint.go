// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpoint has what clients need to reach the log service: where it publishes its
// address and its CA, and the audience of tokens. Programs in pods import this package,
// so it imports only the standard library.
package endpoint

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

const (
	// Namespace is the namespace of the log service.
	Namespace = "entrypointer-logs"
	// ConfigMap is the name of the ConfigMap with the Endpoint.
	ConfigMap = "log-service"
	// Audience is the audience of the tokens with which pods write logs. It has no other
	// use, so a stolen token has none either.
	Audience = "entrypointer-logs"
	// Group is the API group by which users read logs. The API server proxies its requests
	// to the log service.
	Group = "logs.entrypointer.dev"
	// Version is the version of the API.
	Version = "v1alpha1"
)

// The keys of the ConfigMap.
const (
	addressKey = "address"
	ipKey      = "ip"
	caKey      = "ca"
)

// pinPrefix precedes the digest of a CA.
const pinPrefix = "sha256:"

// An Endpoint is how to reach the log service. No part of it is a secret.
type Endpoint struct {
	// Address is a URL without a path, such as https://logs.entrypointer-logs.svc.
	Address string
	// IP is the cluster IP of the Service, for clients whose DNS can't resolve the name. The
	// port is that of Address. "" stands for none.
	IP string
	// CA is the Pin of the CA that has signed the service's certificate.
	CA string
}

// Pin returns "sha256:" and the hexadecimal SHA-256 of a certificate's
// SubjectPublicKeyInfo, as in kubeadm's --discovery-token-ca-cert-hash.
func Pin(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return pinPrefix + hex.EncodeToString(sum[:])
}

// Data returns the data of the ConfigMap.
func (e Endpoint) Data() map[string]string {
	data := map[string]string{addressKey: e.Address, caKey: e.CA}
	if e.IP != "" {
		data[ipKey] = e.IP
	}
	return data
}

// FromConfigMap parses the data of the ConfigMap. It ignores unknown keys, which may be
// those of a later version.
func FromConfigMap(data map[string]string) (Endpoint, error) {
	e := Endpoint{Address: data[addressKey], IP: data[ipKey], CA: data[caKey]}
	if err := checkAddress(e.Address); err != nil {
		return Endpoint{}, configMapError(addressKey, err)
	}
	if err := checkIP(e.IP); err != nil {
		return Endpoint{}, configMapError(ipKey, err)
	}
	if err := checkPin(e.CA); err != nil {
		return Endpoint{}, configMapError(caKey, err)
	}
	return e, nil
}

// New returns an endpoint after checking its parts. The IP address may be "".
func New(address, ip, ca string) (Endpoint, error) {
	if err := checkAddress(address); err != nil {
		return Endpoint{}, fmt.Errorf("reading the address of the log service: %w", err)
	}
	if err := checkIP(ip); err != nil {
		return Endpoint{}, fmt.Errorf("reading the IP address of the log service: %w", err)
	}
	if err := checkPin(ca); err != nil {
		return Endpoint{}, fmt.Errorf("reading the CA of the log service: %w", err)
	}
	return Endpoint{Address: address, IP: ip, CA: ca}, nil
}

func configMapError(key string, err error) error {
	return fmt.Errorf("reading %q of ConfigMap %q in namespace %q: %w; a running log service repairs it within two minutes", key, ConfigMap, Namespace, err)
}

func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("%.200q isn't a URL: %w", address, err)
	}
	// No other characters: the address becomes an argument of programs in pods.
	if u.Hostname() == "" || address != "https://"+u.Host || strings.HasSuffix(u.Host, ":") || strings.Trim(u.Host, hostCharacters) != "" {
		return fmt.Errorf("%.200q isn't an address: use https:// and a host, with or without a port, such as https://logs.%s.svc", address, Namespace)
	}
	return nil
}

func checkIP(ip string) error {
	if ip == "" {
		return nil
	}
	if _, err := netip.ParseAddr(ip); err != nil || strings.Contains(ip, "%") {
		return fmt.Errorf("%.200q isn't an IP address", ip)
	}
	return nil
}

// hostCharacters are the characters of host names, IP addresses and ports.
const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.:[]"

func checkPin(pin string) error {
	digest, is := strings.CutPrefix(pin, pinPrefix)
	raw, err := hex.DecodeString(digest)
	if !is || err != nil || len(raw) != sha256.Size || digest != strings.ToLower(digest) {
		return fmt.Errorf("%.200q isn't a digest: use sha256: and %d hexadecimal digits in lower case", pin, 2*sha256.Size)
	}
	return nil
}
