// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package grep

import (
	"fmt"
	"strings"
	"testing"
)

func BenchmarkScan(b *testing.B) {
	var text strings.Builder
	for i := 0; text.Len() < 32<<10; i++ {
		fmt.Fprintf(&text, `{"time":"2026-11-26T03:00:%02dZ","level":"info","msg":"answered","path":"/orders/%d","ms":%d}`+"\n", i%60, i*7919, i%97)
	}
	block := []byte(text.String())
	for _, expression := range []string{"level.:.error", "timeout", `"ms":[0-9]{4}`, `(error|timeout|refused)`, `[0-9]{3}-[0-9]{4}`, `(?i)timeout`} {
		b.Run(expression, func(b *testing.B) {
			e, err := Compile(expression, false)
			if err != nil {
				b.Fatal(err)
			}
			s := NewScanner(e, 0, 0, func(Line) error { return nil })
			b.SetBytes(int64(len(block)))
			for at := int64(0); b.Loop(); at += int64(len(block)) {
				if err := s.Write(at, block); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
