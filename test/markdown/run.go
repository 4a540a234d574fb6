// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Shell runs the commands of a page.
type Shell struct {
	Directory   string   // where the commands run
	Environment []string // as of [exec.Cmd]
	// Names are words of the page, such as those of namespaces, and what stands for
	// them in the commands. The output is compared with the words of the page.
	Names map[string]string
	// Again is a text by which a command says that it has no answer at the moment, "" for none.
	// A command that prints the text is run again, some times. Log is told of it.
	Again string
	Log   func(format string, arguments ...any)
}

// Run runs the blocks of a page in one bash, but for those that say why not. The
// error names the first command that fails, or that prints something else than the
// page shows:
//
//   - The line "..." stands for any number of lines, and "..." within a line for any text.
//   - Any run of blanks is as good as any other.
//   - Lines of client-go's own log don't count.
//   - "created", at the end of a line, stands also for "configured" and "unchanged":
//     the reader may be the first to apply an object, and the test isn't.
//   - Of a command of which the page shows no output, the exit code counts alone.
//   - A command may fail if the page shows a line that begins with "error" or "Error".
//   - "export NAME=VALUE" leaves a variable alone that the environment has.
func (s Shell) Run(ctx context.Context, blocks []Block) error {
	directory, err := os.MkdirTemp("", "page-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	// Commands may open it again, as /dev/stdout.
	printed, err := os.OpenFile(filepath.Join(directory, "printed"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer printed.Close()
	script, commands := s.script(blocks, printed.Name())
	file := filepath.Join(directory, "page.sh")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return err
	}
	bash := exec.CommandContext(ctx, "bash", file)
	bash.Dir, bash.Env = s.Directory, s.Environment
	bash.Stdout, bash.Stderr = printed, printed
	// What the commands have started ends with them.
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bash.Cancel = func() error { return syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) }
	bash.WaitDelay = 5 * time.Second
	ended := errors.Join(bash.Run(), ctx.Err())
	text, err := os.ReadFile(printed.Name())
	if err != nil {
		return errors.Join(ended, err)
	}
	return s.compare(commands, string(text), ended)
}

const (
	// separator ends what a command prints. Its exit code follows, and another one.
	separator = "\x1e"
	// again ends what a command prints that is run again.
	again = "\x1d"
	// tries is how often a command is run that has no answer.
	tries = 5
)

// script is what bash runs, with the commands in their order. What they print is in a file.
func (s Shell) script(blocks []Block, printed string) (string, []Command) {
	var script strings.Builder
	var commands []Command
	add := func(c Command) {
		commands = append(commands, c)
		text := c.Text + "\ncode=$?"
		if s.Again != "" {
			text = fmt.Sprintf("for attempt in $(seq %d); do\nprinted=$(stat -c %%s '%s')\n%s\ntail -c +$((printed + 1)) '%s' | grep -qF -- '%s' && [ $attempt != %d ] || break\nprintf '%s'\ndone",
				tries, printed, text, printed, strings.ReplaceAll(s.Again, "'", `'\''`), tries, again)
		}
		fmt.Fprintf(&script, "%s\nprintf '%s%%d%s' $code\n", text, separator, separator)
		if !mayFail(c) {
			script.WriteString("[ $code = 0 ] || exit 1\n")
		}
	}
	var placeholders []*regexp.Regexp
	for _, block := range blocks {
		if block.NotRun != "" {
			continue
		}
		if block.First != "" {
			add(Command{Line: block.Line, Text: s.renamed(block.First)})
			placeholders = append(placeholders, assigned(block.First)...)
		}
		for _, c := range block.Commands {
			c.Text = keepsExported(s.renamed(c.Text))
			for _, placeholder := range placeholders {
				c.Text = placeholder.ReplaceAllString(c.Text, `${1}"$$${2}"`)
			}
			add(c)
		}
	}
	return script.String(), commands
}

func (s Shell) renamed(text string) string {
	for name, stands := range s.Names {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).ReplaceAllLiteralString(text, stands)
	}
	return text
}

var assignment = regexp.MustCompile(`(?m)^([A-Z][A-Z_]*)=`)

// assigned finds the variables that commands set, as words of other commands.
func assigned(text string) (words []*regexp.Regexp) {
	for _, match := range assignment.FindAllStringSubmatch(text, -1) {
		words = append(words, regexp.MustCompile(`(^|[\s/=])(`+match[1]+`)\b`))
	}
	return words
}

var exporting = regexp.MustCompile(`^export (\w+)=(\S+)`)

func keepsExported(text string) string {
	return exporting.ReplaceAllString(text, `export $1="$${$1:-$2}"`)
}

var failure = regexp.MustCompile(`(?m)^[Ee]rror`)

func mayFail(c Command) bool { return failure.MatchString(c.Shown) }

// compare finds the first command that did something else than the page says. ended is
// how bash did.
func (s Shell) compare(commands []Command, printed string, ended error) error {
	parts := strings.Split(printed, separator)
	for i, c := range commands {
		output := parts[min(2*i, len(parts)-1)]
		for name, stands := range s.Names {
			output = strings.ReplaceAll(output, stands, name)
		}
		for {
			before, after, isRepeated := strings.Cut(output, again)
			if !isRepeated {
				break
			}
			s.log("line %d: %q is run again, after it had printed:\n%s", c.Line, c.Text, before)
			output = after
		}
		if 2*i+1 >= len(parts) {
			return fmt.Errorf("line %d: running %q: %w, after it had printed:\n%s", c.Line, c.Text, ended, output)
		}
		code, err := strconv.Atoi(parts[2*i+1])
		if err != nil {
			return fmt.Errorf("line %d: reading the exit code of %q: %w", c.Line, c.Text, err)
		}
		if code != 0 && !mayFail(c) {
			return fmt.Errorf("line %d: running %q: exit code %d, after it had printed:\n%s", c.Line, c.Text, code, output)
		}
		if c.Shown != "" && !Matches(c.Shown, output) {
			return fmt.Errorf("line %d: %q prints\n%s\nand the page shows\n%s", c.Line, c.Text, output, c.Shown)
		}
	}
	return nil
}

func (s Shell) log(format string, arguments ...any) {
	if s.Log != nil {
		s.Log(format, arguments...)
	}
}

const wildcard = "..."

var blanks = regexp.MustCompile(`[ \t]+`)

// klogLine is a line of client-go's own log. On a busy machine, kubectl wait logs that its
// watch has ended.
var klogLine = regexp.MustCompile(`(?m)^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ reflector\.go:\d+\] .*\n`)

// Matches says whether a command printed what a page shows, by the rules of [Shell.Run].
func Matches(shown, printed string) bool {
	printed = klogLine.ReplaceAllString(printed, "")
	var pattern strings.Builder
	pattern.WriteString("^")
	for _, line := range lines(shown) {
		if line == wildcard {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		line, applied := strings.CutSuffix(line, " created")
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), regexp.QuoteMeta(wildcard), ".*"))
		if applied {
			pattern.WriteString(" (?:created|configured|unchanged)")
		}
		pattern.WriteString(`\n`)
	}
	pattern.WriteString("$")
	return regexp.MustCompile(pattern.String()).MatchString(strings.Join(lines(printed), "\n") + "\n")
}

// lines splits text into lines without blanks more than needed, and without empty lines at its end.
func lines(text string) []string {
	list := strings.Split(strings.TrimRight(text, "\n \t"), "\n")
	for i, line := range list {
		list[i] = strings.TrimRight(blanks.ReplaceAllString(line, " "), " ")
	}
	return list
}
