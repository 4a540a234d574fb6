// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// A browser is a tab of Chromium or Firefox, with what it complained of.
type browser struct {
	driver
	context.Context //nolint:containedctx // by which chromedp knows a tab of Chromium

	name       string        // of Firefox's pictures, empty for Chromium
	complained chan struct{} // closed with the first complaint

	mu       sync.Mutex
	problems []string
	expected string // what those say that are none, "" if all are
}

// A driver acts in a tab.
type driver interface {
	open(address string) error
	// evaluate runs JavaScript, and returns the string that it or its promise results in.
	evaluate(script string) (string, error)
	// press presses the keys of a text, in which those of kb stand for others.
	press(text string) error
	click(selector string) error
	// prefer has pages use a color scheme, light or dark.
	prefer(scheme string) error
	// picture takes a picture as PNG, of the whole page or of what is seen.
	picture(whole bool) ([]byte, error)
}

// inBrowsers runs a test in each browser.
func inBrowsers(t *testing.T, test func(t *testing.T, b *browser)) {
	t.Helper()
	t.Run("chromium", func(t *testing.T) { test(t, newChromium(t)) })
	t.Run("firefox", func(t *testing.T) { test(t, newFirefox(t)) })
}

// newChromium starts a browser. The test fails if a page writes a warning or an error to the
// console, throws, gets a response that is an error, or breaks its Content-Security-Policy, which
// Chromium logs as errors.
func newChromium(t *testing.T) *browser {
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
	b := &browser{driver: chromium{tab}, Context: tab, complained: make(chan struct{})}
	b.do(t) // starts it
	go b.listen(chromedp.Console(tab))
	b.requireSilence(t)
	return b
}

// requireSilence has the test fail in the end if the browser complained.
func (b *browser) requireSilence(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		problems := slices.DeleteFunc(slices.Clone(b.problems), func(problem string) bool { return b.expected != "" && strings.Contains(problem, b.expected) })
		require.Empty(t, problems, "what the browser complained of")
	})
}

// listen notes what Chromium complains of.
func (b *browser) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range messages {
		if err != nil {
			return
		}
		switch message.Type {
		case chromedp.ConsoleError, chromedp.ConsoleWarning, chromedp.ConsoleException:
			b.complain(fmt.Sprintf("%s: %s (%s)", message.Type, message.Text, message.URL))
		default:
		}
	}
}

func (b *browser) complain(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) == 0 {
		close(b.complained)
	}
	b.problems = append(b.problems, problem)
}

// requireComplaint waits until the browser has complained. In this test, it may do so of what a text says.
func (b *browser) requireComplaint(t *testing.T, of string) {
	t.Helper()
	select {
	case <-b.complained:
	case <-b.Done():
		require.Fail(t, "the browser doesn't complain")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = of
}

// do runs actions in Chromium.
func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(b, actions...))
}

// visit opens a page, and waits until an expression of JavaScript is true.
func (b *browser) visit(t *testing.T, address, expression string) {
	t.Helper()
	require.NoError(t, b.open(address))
	b.await(t, expression)
}

// await waits until an expression of JavaScript is true. If it fails, there is a picture.
func (b *browser) await(t *testing.T, expression string) {
	t.Helper()
	_, err := b.evaluate(whenever(expression))
	if err != nil {
		b.takePicture(t, "failed", false)
	}
	require.NoError(t, err, expression)
}

// arrive is await while the browser may be leaving a page, where what is evaluated fails, and a promise
// may never be kept or broken.
func (b *browser) arrive(t *testing.T, expression string) {
	t.Helper()
	for end := time.Now().Add(patience - patience/5); ; time.Sleep(20 * time.Millisecond) {
		is, err := b.evaluate("String(Boolean(" + expression + "))")
		if err == nil && is == "true" {
			return
		}
		if time.Now().After(end) || b.Err() != nil {
			b.takePicture(t, "failed", false)
			require.FailNow(t, "it isn't so", "%s: %q, %v, %v", expression, is, err, b.Err())
		}
	}
}

// whenever is an expression for a promise that is kept once another expression is true, and broken
// while there is time left for a picture.
func whenever(expression string) string {
	return fmt.Sprintf(`new Promise((resolve, reject) => {
		const end = Date.now() + %d;
		const look = () => { try { if (%s) resolve(""); else if (Date.now() > end) reject(new Error("it isn't so")); else setTimeout(look, 20); } catch (error) { reject(error); } };
		look();
	})`, (patience - patience/5).Milliseconds(), expression)
}

// run runs JavaScript.
func (b *browser) run(t *testing.T, script string) {
	t.Helper()
	_, err := b.evaluate(script + `; ""`)
	require.NoError(t, err, script)
}

// keys presses keys.
func (b *browser) keys(t *testing.T, text string) {
	t.Helper()
	require.NoError(t, b.press(text))
}

// clickOn clicks on the first element of a selector.
func (b *browser) clickOn(t *testing.T, selector string) {
	t.Helper()
	require.NoError(t, b.click(selector))
}

// write writes into a field.
func (b *browser) write(t *testing.T, selector, text string) {
	t.Helper()
	b.run(t, fmt.Sprintf("document.querySelector(%q).focus()", selector))
	b.keys(t, text)
}

// prefers has pages use a color scheme, light or dark.
func (b *browser) prefers(t *testing.T, scheme string) {
	t.Helper()
	require.NoError(t, b.prefer(scheme))
}

// value returns the value of an expression of JavaScript.
func value[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	text, err := b.evaluate("JSON.stringify(" + expression + ")")
	require.NoError(t, err, expression)
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), expression)
	return v
}

// takePicture writes a picture, if the command line asks for pictures.
func (b *browser) takePicture(t *testing.T, name string, whole bool) {
	t.Helper()
	if *pictures == "" {
		return
	}
	picture, err := b.picture(whole)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(*pictures, name+b.name+".png"), picture, 0o644))
}

// A chromium is a tab of Chromium, by the DevTools protocol.
type chromium struct{ context.Context } //nolint:containedctx // by which chromedp knows it

func (c chromium) open(address string) error { return chromedp.Do(c, chromedp.Navigate(address)) }

func (c chromium) evaluate(script string) (string, error) {
	return chromedp.Run(c, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
}

func (c chromium) press(text string) error { return chromedp.Do(c, chromedp.KeyEvent(text)) }

func (c chromium) click(selector string) error {
	return chromedp.Do(c, chromedp.Click(chromedp.CSS(selector)))
}

func (c chromium) prefer(scheme string) error {
	return chromedp.Do(c, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return err
	}))
}

func (c chromium) picture(whole bool) ([]byte, error) {
	if whole {
		return chromedp.Run(c, chromedp.FullScreenshot(100))
	}
	return chromedp.Run(c, chromedp.CaptureScreenshot())
}

// until waits until an expression of JavaScript is true, in Chromium.
func until(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(patience))
}

// serve serves the page of a cluster, as kubectl entrypointer ui does, and returns the
// address of its root, without a slash at the end.
func serve(t *testing.T, cluster http.Handler, changes ...func(*page.Options)) string {
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
