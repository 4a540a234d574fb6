// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// preferences keep Firefox from asking for anything but the pages of the tests: what isn't on a
// loopback address goes to a proxy that doesn't exist.
const preferences = `user_pref("network.proxy.type", 1);
user_pref("network.proxy.http", "127.0.0.1");
user_pref("network.proxy.http_port", 9);
user_pref("network.proxy.ssl", "127.0.0.1");
user_pref("network.proxy.ssl_port", 9);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("app.update.disabledForTesting", true);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("layout.css.prefers-color-scheme.content-override", 1);
user_pref("ui.prefersReducedMotion", 1);
`

// reportViolations has a page write violations of its Content-Security-Policy to the console,
// which Firefox does in words that the protocol doesn't have.
const reportViolations = `() => addEventListener("securitypolicyviolation", (e) => console.error("Content-Security-Policy: " + e.effectiveDirective + " " + e.blockedURI))`

// A session is one with Firefox, by WebDriver BiDi: https://w3c.github.io/webdriver-bidi/. All
// tests share one, because Firefox takes seconds to start.
type session struct {
	socket *websocket.Conn
	window string // of the program itself

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	tabs    map[string]func(complaint string)
	failed  error
}

// A firefox is a tab of Firefox.
type firefox struct {
	*session
	context.Context //nolint:containedctx // of the test

	tab string
}

// An answer is that to a command, or an event.
type answer struct {
	ID      int             `json:"id"`
	Type    string          `json:"type"`
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
	Message string          `json:"message"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// theSession starts Firefox when a test first needs it.
var theSession = sync.OnceValues(startFirefox)

// newFirefox opens a tab, as newChromium does.
func newFirefox(t *testing.T) *browser {
	t.Helper()
	s, err := theSession()
	require.NoError(t, err, "hack/apt-get.sh firefox-esr installs it")
	limited, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	b := &browser{Context: limited, name: "-firefox", complained: make(chan struct{})}
	f := &firefox{session: s, Context: limited}
	require.NoError(t, f.begin(b.complain))
	t.Cleanup(func() { require.NoError(t, f.end()) })
	b.driver = f
	b.requireSilence(t)
	return b
}

// startFirefox starts the program, and begins a session.
func startFirefox() (*session, error) {
	path, err := exec.LookPath("firefox-esr")
	if err != nil {
		path, err = exec.LookPath("firefox")
	}
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "firefox-")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(preferences), 0o600); err != nil {
		return nil, err
	}
	command := exec.Command(path, "--headless", "--no-remote", "--remote-allow-system-access", "--profile", profile, "--remote-debugging-port", "0", "about:blank")
	command.Env = append(os.Environ(), "HOME="+profile)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	said, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	lines, address := bufio.NewScanner(said), ""
	for address == "" && lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), "WebDriver BiDi listening on ")
	}
	ended := make(chan struct{})
	go func() { // or it would wait for its words to be read
		for lines.Scan() {
			continue
		}
		close(ended)
	}()
	s := &session{waiting: map[int]chan answer{}, tabs: map[string]func(string){}}
	end := func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // or it has ended
		<-ended                                                 // all processes that use the profile
		_ = command.Wait()                                      // which says that it was killed
		_ = os.RemoveAll(profile)
	}
	if err := s.connect(address); err != nil {
		end()
		return nil, err
	}
	ends = append(ends, end)
	return s, nil
}

// connect begins the session, and has complaints reported.
func (s *session) connect(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	socket, response, err := websocket.DefaultDialer.DialContext(ctx, address+"/session", nil)
	if err != nil {
		return fmt.Errorf("connecting to Firefox at %q: %w", address, err)
	}
	_ = response.Body.Close()
	s.socket = socket
	go s.listen()
	var windows struct {
		Contexts []struct {
			Context string `json:"context"`
		} `json:"contexts"`
	}
	for _, command := range []struct {
		method string
		params map[string]any
		result any
	}{
		{"session.new", map[string]any{"capabilities": map[string]any{}}, nil},
		{"browsingContext.getTree", map[string]any{"moz:scope": "chrome"}, &windows},
		{"session.subscribe", map[string]any{"events": []string{"log.entryAdded", "network.responseCompleted"}}, nil},
		{"script.addPreloadScript", map[string]any{"functionDeclaration": reportViolations}, nil},
	} {
		if err := s.call(ctx, command.method, command.params, command.result); err != nil {
			return err
		}
	}
	s.window = windows.Contexts[0].Context
	return nil
}

// begin opens the tab.
func (f *firefox) begin(complain func(string)) error {
	var created struct {
		Context string `json:"context"`
	}
	if err := f.call(f, "browsingContext.create", map[string]any{"type": "tab"}, &created); err != nil {
		return err
	}
	f.tab = created.Context
	f.mu.Lock()
	f.tabs[f.tab] = complain
	f.mu.Unlock()
	return errors.Join(f.prefer("light"), f.call(f, "browsingContext.setViewport", map[string]any{"context": f.tab, "viewport": map[string]any{"width": 1280, "height": 900}}, nil))
}

// end closes the tab.
func (f *firefox) end() error {
	f.mu.Lock()
	delete(f.tabs, f.tab)
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return f.call(ctx, "browsingContext.close", map[string]any{"context": f.tab}, nil)
}

// listen takes answers and events until the connection ends.
func (s *session) listen() {
	for {
		var a answer
		if err := s.socket.ReadJSON(&a); err != nil {
			s.mu.Lock()
			s.failed = err
			for _, waits := range s.waiting {
				close(waits)
			}
			clear(s.waiting)
			s.mu.Unlock()
			return
		}
		if a.Type == "event" {
			s.note(a)
			continue
		}
		s.mu.Lock()
		if waits := s.waiting[a.ID]; waits != nil {
			waits <- a
			delete(s.waiting, a.ID)
		}
		s.mu.Unlock()
	}
}

// note notes the events that Chromium would complain os.
func (s *session) note(event answer) {
	var params struct {
		Context string `json:"context"`
		Source  struct {
			Context string `json:"context"`
		} `json:"source"`
		Level    string `json:"level"`
		Text     string `json:"text"`
		Response struct {
			URL    string `json:"url"`
			Status int    `json:"status"`
		} `json:"response"`
	}
	if err := json.Unmarshal(event.Params, &params); err != nil {
		return // it isn't one of those that were subscribed to
	}
	s.mu.Lock()
	complain := s.tabs[cmp.Or(params.Source.Context, params.Context)]
	s.mu.Unlock()
	if complain == nil {
		return
	}
	if params.Level == "error" || params.Level == "warn" {
		complain(params.Level + ": " + params.Text)
	}
	if params.Response.Status >= 400 {
		complain(fmt.Sprintf("status %d (%s)", params.Response.Status, params.Response.URL))
	}
}

// call runs a command, and decodes its result, unless result is nil.
func (s *session) call(ctx context.Context, method string, params map[string]any, result any) error {
	answered := make(chan answer, 1)
	s.mu.Lock()
	s.last++
	id := s.last
	s.waiting[id] = answered
	err := s.failed
	if err == nil {
		err = s.socket.WriteJSON(map[string]any{"id": id, "method": method, "params": params})
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a, is := <-answered:
		switch {
		case !is:
			return fmt.Errorf("%s: Firefox has ended", method)
		case a.Type == "error":
			return fmt.Errorf("%s: %s: %s", method, a.Error, a.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(a.Result, result)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

func (f *firefox) open(address string) error {
	return f.call(f, "browsingContext.navigate", map[string]any{"context": f.tab, "url": address, "wait": "complete"}, nil)
}

// remote is a value of JavaScript, or what was thrown.
type remote struct {
	Type      string `json:"type"`
	Exception struct {
		Text string `json:"text"`
	} `json:"exceptionDetails"`
	Result struct {
		Type     string          `json:"type"`
		Value    json.RawMessage `json:"value"`
		SharedID string          `json:"sharedId"`
	} `json:"result"`
}

func (f *firefox) result(script string) (remote, error) {
	var r remote
	err := f.call(f, "script.evaluate", map[string]any{"expression": script, "target": map[string]any{"context": f.tab}, "awaitPromise": true, "userActivation": true}, &r)
	if err == nil && r.Type == "exception" {
		err = errors.New(r.Exception.Text)
	}
	return r, err
}

func (f *firefox) evaluate(script string) (string, error) {
	r, err := f.result(script)
	if err != nil {
		return "", err
	}
	var text string
	if err := json.Unmarshal(r.Result.Value, &text); err != nil {
		return "", fmt.Errorf("reading a value of type %s: %w", r.Result.Type, err)
	}
	return text, nil
}

// keys are those of WebDriver that have no character, by chromedp's names.
var keys = map[rune]string{
	[]rune(kb.Tab)[0]: "\ue004", []rune(kb.Enter)[0]: "\ue007", []rune(kb.Escape)[0]: "\ue00c",
	[]rune(kb.Home)[0]: "\ue011", []rune(kb.PageDown)[0]: "\ue00f", []rune(kb.PageUp)[0]: "\ue00e",
}

func (f *firefox) press(text string) error {
	actions := []any{}
	for _, r := range text {
		key := string(r)
		if named, is := keys[r]; is {
			key = named
		}
		actions = append(actions, map[string]any{"type": "keyDown", "value": key}, map[string]any{"type": "keyUp", "value": key})
	}
	return f.act(map[string]any{"type": "key", "id": "keyboard", "actions": actions})
}

func (f *firefox) act(source map[string]any) error {
	return f.call(f, "input.performActions", map[string]any{"context": f.tab, "actions": []any{source}}, nil)
}

func (f *firefox) click(selector string) error {
	element := fmt.Sprintf("document.querySelector(%q)", selector)
	// A module may show it only once it runs.
	if _, err := f.evaluate(whenever(element+"?.checkVisibility()") + `.then(() => { ` + element + `.scrollIntoView({ block: "nearest" }); return ""; })`); err != nil {
		return err
	}
	found, err := f.result(element)
	if err != nil {
		return err
	}
	origin := map[string]any{"type": "element", "element": map[string]any{"sharedId": found.Result.SharedID}}
	return f.act(map[string]any{"type": "pointer", "id": "mouse", "actions": []any{
		map[string]any{"type": "pointerMove", "x": 0, "y": 0, "origin": origin},
		map[string]any{"type": "pointerDown", "button": 0},
		map[string]any{"type": "pointerUp", "button": 0},
	}})
}

// prefer sets a preference of the browser, by its own window: the protocol has no command for it.
func (f *firefox) prefer(scheme string) error {
	return f.call(f, "script.evaluate", map[string]any{
		"expression":   fmt.Sprintf(`Services.prefs.setIntPref("layout.css.prefers-color-scheme.content-override", %d)`, map[string]int{"dark": 0, "light": 1}[scheme]),
		"awaitPromise": false,
		"target":       map[string]any{"context": f.window},
	}, nil)
}

func (f *firefox) picture(whole bool) ([]byte, error) {
	origin := "viewport"
	if whole {
		origin = "document"
	}
	var shot struct {
		Data string `json:"data"`
	}
	if err := f.call(f, "browsingContext.captureScreenshot", map[string]any{"context": f.tab, "origin": origin}, &shot); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(shot.Data)
}
