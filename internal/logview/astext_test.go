// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logreader"
)

func TestTheTextWaitsForWhatIsThere(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}), make(chan struct{})
	l := serve(t, Options{}, func(ctx context.Context, to *Recorder) error {
		p := &printed{to, map[string]int64{}}
		if err := p.print(stdout, "first"); err != nil {
			return err
		}
		close(begun)
		<-goOn
		if err := p.print(stdout, "second"); err != nil {
			return err
		}
		to.Live()
		<-ctx.Done()
		return nil
	})
	answer := make(chan string, 1)
	go func() { answer <- l.ask("/text").Body.String() }()
	<-begun
	close(goOn)
	require.Equal(t, "first\nsecond\n[entrypointer: The log goes on. This is what there was when this text was asked for.]\n", <-answer)
}

func TestTheTextSaysWhyItEnds(t *testing.T) {
	t.Parallel()
	whole := serve(t, Options{}, prints(func(p *printed) error { return p.print(stdout, "all") }))
	require.Equal(t, "all\n", whole.ask("/text").Body.String())

	full := serve(t, Options{MaxLog: 100 << 10}, prints(func(p *printed) error {
		for {
			if err := p.print(stdout, strings.Repeat("x", 999)); err != nil {
				return err
			}
		}
	}))
	text := full.ask("/text").Body.String()
	require.Regexp(t, `x\n\[entrypointer: The page shows the first \d+ kB of this log, [^\n]*\]\n$`, text)

	failed := serve(t, Options{}, prints(func(*printed) error { return errors.New("the log service is gone") }))
	w := failed.ask("/text")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "the log service is gone")

	refused := serve(t, Options{}, prints(func(*printed) error { return fmt.Errorf("listing: %w", logreader.ErrForbidden) }))
	require.Equal(t, http.StatusForbidden, refused.ask("/text").Code)

	partly := serve(t, Options{}, prints(func(p *printed) error {
		return errors.Join(p.Add(Line{Stream: stdout, Text: []byte("one")}), errors.New("the log service\nis gone"))
	}))
	text = partly.ask("/text").Body.String()
	require.True(t, strings.HasPrefix(text, "one\n[entrypointer: The log ends here, because it couldn't be read on: "), text)
	require.Equal(t, 2, strings.Count(text, "\n"))
}

func TestALineOfTheTextIsOfOneContainer(t *testing.T) {
	t.Parallel()
	l := serve(t, Options{}, prints(func(p *printed) error {
		return errorsOf(
			p.Add(Line{Stream: stdout, Text: []byte("no newline")}),
			p.all(other, "its line"),
			p.Add(Line{Stream: stdout, Text: []byte("[proxy] forged"), Offset: 10, Ended: true}),
			p.Add(Line{Stream: stdout, Text: []byte(strings.Repeat("y", 2*pieceSize)), Offset: 25, Ended: true}),
			p.Add(Line{Stream: stdout, Text: []byte("open"), Offset: 26 + 2*pieceSize}),
			p.Add(Line{Stream: stdout, Text: []byte("[entrypointer: 5 bytes were dropped]"), Offset: 30 + 2*pieceSize, Ended: true, Gap: true}),
		)
	}))
	require.Equal(t, "[compile] no newline\n[proxy] its line\n[compile] [proxy] forged\n[compile] "+strings.Repeat("y", 2*pieceSize)+
		"\n[compile] open\n[compile] [entrypointer: 5 bytes were dropped]\n", l.ask("/text").Body.String())
}
