// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAPackagesFilesFindTheirPlaceOnceAndWithoutManuals(t *testing.T) {
	var pkg bytes.Buffer
	writer := tar.NewWriter(&pkg)
	for _, header := range []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir},
		{Name: "./bin/", Typeflag: tar.TypeDir},
		{Name: "./bin/perl", Typeflag: tar.TypeReg, Mode: 0o755, Size: 1},
		{Name: "./usr/bin/perl5", Typeflag: tar.TypeLink, Linkname: "./bin/perl"},
		{Name: "./usr/share/doc/perl", Typeflag: tar.TypeReg},
		{Name: "./etc/passwd", Typeflag: tar.TypeReg},
		{Name: "./library", Typeflag: tar.TypeReg},
	} {
		if err := writer.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Size > 0 {
			if _, err := writer.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}

	var layer bytes.Buffer
	archive := newArchive(&layer)
	for _, file := range []File{{Path: "bin", Link: "usr/bin"}, {Path: "etc/passwd", Content: "ours"}} {
		if err := archive.addFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.addAll(tar.NewReader(&pkg)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for reader := tar.NewReader(&layer); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		entry := header.Name
		if header.Linkname != "" {
			entry += "=" + header.Linkname
		}
		got = append(got, entry)
	}
	const want = "bin=usr/bin etc/ etc/passwd usr/ usr/bin/ usr/bin/perl usr/bin/perl5=usr/bin/perl library"
	if got := strings.Join(got, " "); got != want {
		t.Errorf("layer: got %q, want %q", got, want)
	}
}
