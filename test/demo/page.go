// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// pageOf is the run whose page is opened.
	pageOf = "taskrun/steps"
	// pagePatience bounds how long the page takes, of which the command is compiled first.
	pagePatience = 5 * time.Minute
	// maxPage bounds a page, in bytes.
	maxPage = 8 << 20
)

// pageCommand is the command that opens the page in this checkout, in a shell that knows nothing
// of the cluster of the demo, unless the demo wasn't started by make: it has the cluster of its
// KUBECONFIG then.
func pageCommand() string {
	command := "go run ./cmd/kubectl-entrypointer ui -n " + optedIn + " " + pageOf
	if os.Getenv("MAKELEVEL") == "" {
		return command
	}
	environment := "make -s env"
	if kind := os.Getenv("CLUSTER"); kind != "" {
		environment += " CLUSTER=" + kind
	}
	return `eval "$(` + environment + `)" && ` + command
}

// An openedPage is what became of the command that opens the page.
type openedPage struct {
	printed string // its first line
	status  int    // of the response at the address
	body    string
	ended   bool // whether nobody answers after Ctrl-C
}

// openPage runs the command, and asks for the page at the address that it prints.
func openPage(ctx context.Context) (opened openedPage, err error) {
	ctx, cancel := context.WithTimeout(ctx, pagePatience)
	defer cancel()
	top, err := framework.RepositoryRoot()
	if err != nil {
		return opened, err
	}
	command := exec.CommandContext(ctx, "sh", "-c", pageCommand())
	command.Dir, command.Env = top, outsideOfMake(os.Environ())
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	toAll := func(signal syscall.Signal) error { return syscall.Kill(-command.Process.Pid, signal) } // as a terminal does
	command.Cancel = func() error { return toAll(syscall.SIGKILL) }
	var said strings.Builder
	command.Stderr = &said
	out, err := command.StdoutPipe()
	if err != nil {
		return opened, err
	}
	if err := command.Start(); err != nil {
		return opened, fmt.Errorf("running %q: %w", command.Args, err)
	}
	lines := bufio.NewReader(out)
	opened.printed, err = lines.ReadString('\n')
	opened.printed = strings.TrimSpace(opened.printed)
	if err == nil {
		opened.status, opened.body, err = ask(ctx, opened.printed)
	}
	_ = toAll(syscall.SIGINT)
	_, errRest := io.Copy(io.Discard, lines) // until the last process has ended
	_ = command.Wait()                       // the shell ends by the signal
	if err := errors.Join(err, errRest); err != nil {
		return opened, fmt.Errorf("running %q: it printed %q, and %q: %w", command.Args, opened.printed, said.String(), err)
	}
	_, _, err = ask(ctx, opened.printed)
	opened.ended = err != nil
	return opened, nil
}

// outsideOfMake returns an environment without what make tells the makes that it runs.
func outsideOfMake(environment []string) (kept []string) {
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if name != "MAKEFLAGS" && name != "MFLAGS" && name != "MAKELEVEL" {
			kept = append(kept, variable)
		}
	}
	return kept
}

// ask returns the response at an address.
func ask(ctx context.Context, address string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	return response.StatusCode, string(content), err
}

func (p openedPage) claims() []claim {
	return []claim{{
		holds: strings.HasPrefix(p.printed, "http://127.0.0.1:"),
		text:  "it prints an address of this machine",
		but:   fmt.Sprintf("it prints %q", p.printed),
	}, {
		holds: p.status == http.StatusOK && strings.Contains(p.body, "<h1>"+pageOf+"</h1>") && strings.Contains(p.body, `<span class="state succeeded">`),
		text:  fmt.Sprintf("there is a page, by which %s succeeded", pageOf),
		but:   fmt.Sprintf("its status is %d, and it is %q", p.status, shorten(p.body, 2000)),
	}, {
		holds: p.ended,
		text:  "Ctrl-C ends it",
		but:   "the address answers on",
	}}
}

// showPage prints the claims of the page, and returns how many there were and how many don't
// hold.
func showPage(out *terminal, opened openedPage) (claimed, failed int) {
	out.heading("The page", "docs/page.md")
	claims := opened.claims()
	return len(claims), out.answer(pageCommand(), "", claims)
}

// showHowToOpenThePage prints the command that has been tried.
func showHowToOpenThePage(out *terminal) {
	out.heading("See it in a browser", "docs/page.md")
	out.command(pageCommand())
}
