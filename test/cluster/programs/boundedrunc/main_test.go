// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheSpecificationIsTheOneThatRuncReads(t *testing.T) {
	for line, want := range map[string]string{
		"--root /run/x --log /l --log-format json create --bundle /b --pid-file /p id": "/b/config.json",
		"--systemd-cgroup create --bundle=/b id":                                       "/b/config.json",
		"run -b /b id":                                                                 "/b/config.json",
		"run id":                                                                       "config.json",
		"restore -bundle /b id":                                                        "/b/config.json",
		"exec --process /tmp/p --detach id":                                            "/tmp/p",
		"exec -p /tmp/p id":                                                            "/tmp/p",
		"exec id sh -c true":                                                           "",
		"exec --tty -p /tmp/p id mkdir -p /x":                                          "/tmp/p",
		"exec id mkdir -p /x":                                                          "",
		"exec --cwd / -- id --process /x":                                              "",
		"--root create kill run 9":                                                     "",
		"--debug --root exec create --no-pivot --bundle /b run":                        "/b/config.json",
		"features":                "",
		"create --bundle":         "config.json",
		"--root /run/x kill id 9": "",
		"":                        "",
	} {
		if file, _ := specification(strings.Fields(line)); file != want {
			t.Errorf("%q: %q, want %q", line, file, want)
		}
	}
}

func TestCapabilitiesThatAreNotThereAreRemoved(t *testing.T) {
	const capabilities = `{"ambient":[],"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE"],"effective":["CAP_SYS_RESOURCE"]}`
	const bounded = `{"ambient":[],"bounding":["CAP_CHOWN"],"effective":[]}`
	for name, c := range map[string]struct {
		before, after string
		fields        []string
	}{
		"of a container":       {`{"process":{"capabilities":` + capabilities + `,"cwd":"/"}}`, `{"process":{"capabilities":` + bounded + `,"cwd":"/"}}`, []string{"process"}},
		"of a further process": {`{"args":["sh"],"capabilities":` + capabilities + `}`, `{"args":["sh"],"capabilities":` + bounded + `}`, nil},
		"without capabilities": {`{"process":{"args":["sh"]}}`, `{"process":{"args":["sh"]}}`, []string{"process"}},
		"without a process":    {`{"linux":{}}`, `{"linux":{}}`, []string{"process"}},
		"beside a large limit": {`{"hard":18446744073709551615}`, `{"hard":18446744073709551615}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := bound(file, c.fields, []string{"CAP_CHOWN", "CAP_KILL"}); err != nil {
				t.Fatal(err)
			}
			if after, err := os.ReadFile(file); err != nil || string(after) != c.after {
				t.Errorf("%s (%v), want %s", after, err, c.after)
			}
		})
	}
}

func TestASpecificationThatCannotBeReadIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	if err := bound(file, nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bound(file, nil, nil); err == nil {
		t.Error("half a document is taken")
	}
}
