// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	protocol "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// figures are those of one log that was opened in a new browser, by a new server. Times begin with
// the navigation.
type figures struct {
	first, last time.Duration // until these lines are seen; 0 if last isn't
	longestTask time.Duration // of the page, 0 below 50 ms
	elements    int
	browser     int64 // the largest memory of the page's process (RSS), in bytes
	server      int64 // that of the server
}

// observe notes what is measured inside the page. It goes to the end until the last line is seen.
const observe = `
window.bench = { task: 0 };
new PerformanceObserver((list) => { for (const e of list.getEntries()) bench.task = Math.max(bench.task, e.duration); }).observe({ type: "longtask", buffered: true });
const looking = setInterval(() => {
	const rows = document.querySelectorAll(%[1]q);
	if (!rows.length) return;
	if (!bench.first && rows[0].getBoundingClientRect().height > 0) bench.first = performance.now();
	const last = [...rows].slice(-3).find((row) => row.textContent.includes(%[2]q)); // an empty one may follow
	const at = last?.getBoundingClientRect();
	if (at && at.top < innerHeight && at.bottom > 0) {
		bench.last = performance.now();
		bench.elements = document.querySelectorAll("*").length;
		clearInterval(looking);
		return;
	}
	%[3]s;
}, 50);`

// inBrowser starts a server and a browser, opens the page, and ends both.
func inBrowser(ctx context.Context, c *cluster, s system, patience time.Duration, prepare string, act func(tab context.Context, server int, renderer func() (int64, error)) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Minute)
	defer cancel()
	server, address, err := s.start(ctx, c)
	if server != nil {
		defer func() {
			_ = server.Process.Kill()
			_ = server.Wait() // which says that it was killed
		}()
	}
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		return fmt.Errorf("%w: hack/apt-get.sh chromium installs it", err)
	}
	profile, err := os.MkdirTemp("", "bench-chromium-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(profile) }()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.WindowSize(1280, 900), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun)
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocated, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	tab, cancel := chromedp.NewContext(allocated)
	defer cancel()
	err = chromedp.Do(tab, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, protocol.AddScriptToEvaluateOnNewDocument, protocol.AddScriptToEvaluateOnNewDocumentParams{Source: prepare})
		return err
	}), chromedp.Navigate(address))
	if err != nil {
		return err
	}
	return act(tab, server.Process.Pid, func() (int64, error) { return rendererMemory(chromedp.FromContext(tab).Browser.Process().Pid) })
}

// measure opens a log once.
func measure(ctx context.Context, c *cluster, s system, patience time.Duration) (f figures, err error) {
	err = inBrowser(ctx, c, s, patience, fmt.Sprintf(observe, s.row, line(c.lines - 1)[:14], s.end), func(tab context.Context, server int, renderer func() (int64, error)) error {
		waiting, cancel := context.WithTimeout(tab, patience) // a page that is busy can't end the wait itself
		defer cancel()
		seen := chromedp.Do(waiting, chromedp.Poll[chromedp.Void](`window.bench?.last > 0`, chromedp.WithPollingTimeout(0), chromedp.WithPollingInterval(100*time.Millisecond)))
		var err error
		if f.server, err = highest(server); err != nil {
			return err
		}
		if errors.Is(seen, context.DeadlineExceeded) {
			return nil // the page is too busy to say more, or has crashed
		}
		if f.browser, err = renderer(); err != nil || seen != nil {
			return errors.Join(seen, err)
		}
		found, err := chromedp.Run(tab, chromedp.Evaluate[map[string]float64](`window.bench`))
		ms := func(name string) time.Duration { return time.Duration(found[name] * float64(time.Millisecond)) }
		f.first, f.last, f.longestTask, f.elements = ms("first"), ms("last"), ms("task"), int(found["elements"])
		return err
	})
	return f, err
}

// highest returns the largest memory that a process has had (RSS), in bytes.
func highest(pid int) (int64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	return kilobytes(string(status), "VmHWM:")
}

func kilobytes(status, name string) (int64, error) {
	for text := range strings.Lines(status) {
		if value, is := strings.CutPrefix(text, name); is {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("reading the memory of a process: it has no %s", name)
}

// rendererMemory returns the memory of the largest process that renders pages, of those that a
// browser has started.
func rendererMemory(browser int) (largest int64, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	parents := map[int]int{}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	for pid := range parents {
		above := pid
		for above > 1 && above != browser {
			above = parents[above]
		}
		command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if above != browser || err != nil || !strings.Contains(string(command), "--type=renderer") {
			continue
		}
		if memory, err := highest(pid); err == nil {
			largest = max(largest, memory)
		}
	}
	if largest == 0 {
		return 0, errors.New("reading the memory of the browser: it has no process that renders pages")
	}
	return largest, nil
}

// searchAll measures searches in the page, in turns with grep.
func searchAll(ctx context.Context, c *cluster, s system, text string, queries []query, p plan) ([]searched, error) {
	all := make([]searched, len(queries))
	const whole = `document.querySelector(".log .state")?.textContent === "That is the whole log."`
	err := inBrowser(ctx, c, s, 10*p.patience, "", func(tab context.Context, _ int, _ func() (int64, error)) error {
		if err := chromedp.Do(tab, chromedp.Poll[chromedp.Void](whole, chromedp.WithPollingTimeout(2*p.patience))); err != nil {
			return err
		}
		for range p.runs {
			for n, q := range queries {
				took, matches, err := searchOnce(tab, q, p.patience)
				if err != nil {
					return err
				}
				began := time.Now()
				grep := exec.CommandContext(ctx, "grep", map[bool]string{true: "-cE", false: "-cF"}[q.isExpression], q.text, text)
				grep.Env = append(os.Environ(), "LC_ALL=C")
				if out, err := grep.Output(); err != nil && len(out) == 0 { // without a match, it exits with 1
					return fmt.Errorf("running grep: %w", err)
				}
				a := &all[n]
				a.query, a.matches, a.page, a.grep = q, matches, append(a.page, took), append(a.grep, time.Since(began))
				log.Printf("%q: %v, grep %v", q.text, took, a.grep[len(a.grep)-1])
			}
		}
		return nil
	})
	return all, err
}

// searchOnce searches, and returns how long the page took to say how many lines
// have it.
func searchOnce(tab context.Context, q query, patience time.Duration) (took time.Duration, matches string, err error) {
	script := fmt.Sprintf(`new Promise((resolve) => {
		const form = document.querySelector(".log form.search"), found = form.querySelector(".found");
		form.elements.regexp.checked = %t;
		form.elements.case.checked = true;
		form.elements.q.value = %q;
		const began = performance.now();
		form.requestSubmit();
		const look = () => {
			if (found.textContent && !found.textContent.includes("…")) resolve([String(performance.now() - began), found.textContent]);
			else setTimeout(look, 5);
		};
		setTimeout(look, 0);
	})`, q.isExpression, q.text)
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	answer, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](script, chromedp.EvalAwaitPromise))
	if err != nil {
		return 0, "", err
	}
	ms, err := strconv.ParseFloat(answer[0], 64)
	return time.Duration(ms * float64(time.Millisecond)), answer[1], err
}
