// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var pin = "sha256:" + strings.Repeat("0a", 32)

func TestAnEndpointComesBackFromTheConfigMap(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://logs.entrypointer-logs.svc", "https://logs.example.com:8443", "https://10.96.3.4", "https://[fd00::1]:8443"} {
		for _, ip := range []string{"", "10.96.3.4", "fd00::1"} {
			want := Endpoint{Address: address, IP: ip, CA: pin}
			data := want.Data()
			data["later"] = "what a later version says"
			got, err := FromConfigMap(data)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

func TestInvalidEndpointsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, address, ca, says string }{
		{"nothing", "", "", `"address"`},
		{"no TLS", "http://logs.entrypointer-logs.svc", pin, "use https://"},
		{"no scheme", "logs.entrypointer-logs.svc", pin, "use https://"},
		{"no host", "https://", pin, "use https://"},
		{"a port alone", "https://:8443", pin, "use https://"},
		{"no port", "https://logs:", pin, "use https://"},
		{"a port that is no number", "https://logs:https", pin, "isn't a URL"},
		{"a path", "https://logs.entrypointer-logs.svc/", pin, "use https://"},
		{"a query", "https://logs.entrypointer-logs.svc?a=b", pin, "use https://"},
		{"a user", "https://user@logs.entrypointer-logs.svc", pin, "use https://"},
		{"a space", "https://logs entrypointer", pin, "isn't a URL"},
		{"a line", "https://logs\nentrypointer", pin, "isn't a URL"},
		{"shell", "https://$(reboot)", pin, "use https://"},
		{"no CA", "https://logs", "", `"ca"`},
		{"no digest", "https://logs", "sha256:", "64 hexadecimal digits"},
		{"another digest", "https://logs", strings.Replace(pin, "256", "512", 1), "64 hexadecimal digits"},
		{"a short digest", "https://logs", pin[:len(pin)-2], "64 hexadecimal digits"},
		{"a long digest", "https://logs", pin + "00", "64 hexadecimal digits"},
		{"no hexadecimal digits", "https://logs", pin[:len(pin)-2] + "xy", "64 hexadecimal digits"},
		{"capitals", "https://logs", strings.ToUpper(pin), "64 hexadecimal digits"},
		{"capital digits", "https://logs", "sha256:" + strings.Repeat("0A", 32), "64 hexadecimal digits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := FromConfigMap(Endpoint{Address: test.address, CA: test.ca}.Data())
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, `ConfigMap "log-service" in namespace "entrypointer-logs"`)
			require.Zero(t, got)
		})
	}
}

func TestInvalidIPAddressesAreRefused(t *testing.T) {
	t.Parallel()
	for _, ip := range []string{"logs", "10.96.3", "10.96.3.4:443", "fe80::1%eth0", "[fd00::1]", " ", "$(reboot)", "None"} {
		_, err := FromConfigMap(Endpoint{Address: "https://logs", IP: ip, CA: pin}.Data())
		require.ErrorContains(t, err, "isn't an IP address", ip)
		_, err = New("https://logs", ip, pin)
		require.ErrorContains(t, err, "reading the IP address", ip)
	}
}

func TestNothingButTheStandardLibraryIsImported(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	require.Equal(t, "github.com/entrypointer/entrypointer/internal/logs/endpoint", strings.TrimSpace(string(out)))
}
