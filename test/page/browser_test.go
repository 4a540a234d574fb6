// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logview"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/internal/page"
	"github.com/entrypointer/entrypointer/internal/page/pagetest"
	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/internal/tracelink"
)

// patience bounds a test in a browser, on a machine that is busy with other tests.
const patience = 5 * time.Minute

// A browser is a tab of Chromium, with what it complained of.
type browser struct {
	context.Context //nolint:containedctx // by which chromedp knows a tab

	complained chan struct{} // closed with the first complaint

	mu          sync.Mutex
	problems    []string
	mayComplain bool
}

// newBrowser starts a browser. The test fails if a page writes a warning or an error to the
// console, throws, or breaks its Content-Security-Policy, which Chromium logs as an error.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	require.NoError(t, err, "install it: hack/apt-get.sh chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun)
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	limited, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	allocated, cancel := chromedp.NewExecAllocator(limited, options...)
	t.Cleanup(cancel)
	tab, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b := &browser{Context: tab, complained: make(chan struct{})}
	b.do(t) // starts it
	go b.listen(chromedp.Console(tab))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.mayComplain {
			require.Empty(t, b.problems, "what the browser complained of")
		}
	})
	return b
}

// listen notes what the browser complains of.
func (b *browser) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range messages {
		if err != nil {
			return
		}
		switch message.Type {
		case chromedp.ConsoleError, chromedp.ConsoleWarning, chromedp.ConsoleException:
			b.mu.Lock()
			if len(b.problems) == 0 {
				close(b.complained)
			}
			b.problems = append(b.problems, fmt.Sprintf("%s: %s (%s)", message.Type, message.Text, message.URL))
			b.mu.Unlock()
		default:
		}
	}
}

// requireComplaint waits until the browser has complained. It may do so in this test.
func (b *browser) requireComplaint(t *testing.T) {
	t.Helper()
	select {
	case <-b.complained:
	case <-b.Done():
		require.Fail(t, "the browser doesn't complain")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mayComplain = true
}

// do runs actions.
func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(b, actions...))
}

// value returns the value of an expression of JavaScript.
func value[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return v
}

// until waits until an expression of JavaScript is true.
func until(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(patience))
}

// prefer has pages use a color scheme, light or dark, and little motion.
func prefer(scheme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, _ error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return none, err
	}
}

// serve serves the page of a cluster, as kubectl entrypointer ui does, and returns the
// address of its root, without a slash at the end.
func serve(t *testing.T, cluster *pagetest.Cluster, changes ...func(*page.Options)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	token := page.NewToken()
	logs := logview.New(logview.Options{Dir: t.TempDir()})
	traces, err := tracelink.Parse("https://jaeger.example/trace/{traceID}")
	require.NoError(t, err)
	o := page.Options{
		Client: objectstest.Client(t, pagetest.Namespace, cluster), Base: "/" + token, Logs: logs, Traces: traces,
		Now: func() time.Time { return pagetest.Now },
		Statuses: func(c *objects.Client) *podstatus.Reader {
			return &podstatus.Reader{Client: *c, Exec: func(context.Context, string, string, ...string) ([]byte, error) {
				return nil, errors.New("no supervisor answers")
			}}
		},
	}
	withPerfetto(t, page.DefaultPerfetto)(&o)
	for _, change := range changes {
		change(&o)
	}
	handler := page.Gate(token, port, page.New(o))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- page.Serve(ctx, listener, handler) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		logs.Close()
	})
	return "http://" + listener.Addr().String() + "/" + token
}
