// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpoint is what others have to know to reach the log service: where it
// leaves its address and its CA, and the audience of the tokens that it takes. What
// runs in pods may import it, so it imports nothing but the standard library.
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
	// Namespace is where the log service runs.
	Namespace = "entrypointer-logs"
	// ConfigMap is where it leaves its Endpoint.
	ConfigMap = "log-service"
	// Audience is whom a token has to be for that writes logs. Of no other use, it is
	// none to whoever steals one.
	Audience = "entrypointer-logs"
	// Group is that of the API by which people read: the API server passes on what is
	// asked of it there.
	Group = "logs.entrypointer.dev"
	// Version is the API's.
	Version = "v1alpha1"
)

// The keys of the ConfigMap.
const (
	addressKey = "address"
	ipKey      = "ip"
	caKey      = "ca"
)

// pinPrefix comes before the digest of a CA.
const pinPrefix = "sha256:"

// An Endpoint is how to reach the log service. Neither part is a secret.
type Endpoint struct {
	// Address is a URL without a path, such as https://logs.entrypointer-logs.svc.
	Address string
	// IP is where it is reached as well, at the same port, where DNS doesn't know the
	// name: that of its Service. "" if there is none.
	IP string
	// CA is what Pin says of the CA that has signed the service's certificate.
	CA string
}

// Pin is "sha256:" and the hexadecimal SHA-256 of a certificate's SubjectPublicKeyInfo,
// as in kubeadm's --discovery-token-ca-cert-hash.
func Pin(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return pinPrefix + hex.EncodeToString(sum[:])
}

// Data is the ConfigMap's.
func (e Endpoint) Data() map[string]string {
	data := map[string]string{addressKey: e.Address, caKey: e.CA}
	if e.IP != "" {
		data[ipKey] = e.IP
	}
	return data
}

// FromConfigMap reads the data of the ConfigMap. Keys that it doesn't know may be
// those of a later version.
func FromConfigMap(data map[string]string) (Endpoint, error) {
	e := Endpoint{Address: data[addressKey], IP: data[ipKey], CA: data[caKey]}
	if err := checkAddress(e.Address); err != nil {
		return Endpoint{}, wrong(addressKey, err)
	}
	if err := checkIP(e.IP); err != nil {
		return Endpoint{}, wrong(ipKey, err)
	}
	if err := checkPin(e.CA); err != nil {
		return Endpoint{}, wrong(caKey, err)
	}
	return e, nil
}

// New is the endpoint at an address, or at an IP address if there is one, with that pin
// of its CA.
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

func wrong(key string, err error) error {
	return fmt.Errorf("reading %q of ConfigMap %q in namespace %q: %w; the log service mends it within two minutes, if it runs", key, ConfigMap, Namespace, err)
}

func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("%.200q is no URL: %w", address, err)
	}
	// Nothing but these: it becomes an argument of programs in pods.
	if u.Hostname() == "" || address != "https://"+u.Host || strings.HasSuffix(u.Host, ":") || strings.Trim(u.Host, hostCharacters) != "" {
		return fmt.Errorf("%.200q isn't https:// and a host, with or without a port, such as https://logs.%s.svc", address, Namespace)
	}
	return nil
}

func checkIP(ip string) error {
	if ip == "" {
		return nil
	}
	if _, err := netip.ParseAddr(ip); err != nil || strings.Contains(ip, "%") {
		return fmt.Errorf("%.200q is no IP address", ip)
	}
	return nil
}

// hostCharacters are those of names and addresses, and of ports after them.
const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.:[]"

func checkPin(pin string) error {
	digest, is := strings.CutPrefix(pin, pinPrefix)
	raw, err := hex.DecodeString(digest)
	if !is || err != nil || len(raw) != sha256.Size || digest != strings.ToLower(digest) {
		return fmt.Errorf("%.200q isn't sha256: and %d hexadecimal digits", pin, 2*sha256.Size)
	}
	return nil
}
