// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"html/template"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/runs"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"class":   class,
	"line":    shortLine,
	"moment":  moment,
	"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"percent": percent,
	"thin":    isThin,
}

// longestLine bounds a text of a tenant in a cell, in bytes.
const longestLine = 300

// shortLine returns a text that a tenant may have written, without control characters.
func shortLine(text string) string { return printable.Line(cut(text, longestLine)) }

// moment returns a time in UTC, to the second.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// class returns a state as the name of a class.
func class(s runs.State) string { return strings.ReplaceAll(string(s), " ", "-") }

// percent returns a place from 0 to 1 as a length of SVG.
func percent(at float64) string { return strconv.FormatFloat(100*at, 'f', 3, 64) + "%" }

// lasted returns a duration as kubectl has it, "" for a negative one.
func lasted(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return duration.HumanDuration(d)
}

// size returns how much was printed for people, in a unit of which there are less than 1024, and
// as a number of bytes. Both are "" if nothing is known of it.
func size(p runs.Printed) (short, exact string) {
	if !p.IsKnown || p.IsMore && p.Bytes == 0 {
		return "", ""
	}
	exact = strconv.FormatInt(p.Bytes, 10) + " bytes"
	amount, at := float64(p.Bytes), 0
	for ; amount >= 1023.5 && at < len(units)-1; at++ { // 1024 once it is rounded
		amount /= 1024
	}
	digits := 1
	if at == 0 || amount >= 99.95 {
		digits = 0
	}
	short = strconv.FormatFloat(amount, 'f', digits, 64) + " " + units[at]
	if p.IsMore {
		return "> " + short, "more than " + exact
	}
	return short, exact
}

// units are those of sizes, each 1024 times the one before.
var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
