// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// What a run writes, by the paths in the repository.
const page, data, picture, operations = "docs/scale.md", "docs/scale.json", "docs/scale.svg", "docs/operations.md"

// A section is a part of a page, "" if nothing was measured for it.
type section struct{ page, name, text string }

func sections(f figures) []section {
	return []section{
		{page, "scale-goals", renderGoals(f)},
		{page, "scale-machine", renderRecords(f)},
		{page, "scale-namespaces", renderNamespaces(f.Namespaces)},
		{page, "scale-pods", renderGrown("pods", f.Pods)},
		{page, "scale-nodes", renderChanging("nodes", "CPU for a change of a node", f.Nodes)},
		{page, "scale-claims", renderClaims(f.Claims)},
		{page, "scale-creations", renderCreations(f.Creations)},
		{page, "scale-reviews", renderReviews(f.Reviews)},
		{page, "scale-images", renderImages(f.Images)},
		{page, "scale-logs", renderLogs(f.Logs)},
		{operations, "scale-sizing", renderSizing(f)},
	}
}

// render returns all tables.
func render(f figures) string {
	var b strings.Builder
	for _, s := range sections(f) {
		if s.text != "" {
			fmt.Fprintf(&b, "%s\n", s.text)
		}
	}
	return b.String()
}

// table renders rows, of which the first is the head. All columns but the first are numbers.
func table(rows [][]string) string {
	if len(rows) < 2 {
		return ""
	}
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "| ---: |%s\n", strings.Repeat(" ---: |", len(row)-1))
		}
	}
	return b.String()
}

// heads returns the heads of the columns that all objects have.
func heads(objects string) []string {
	return []string{objects, "from start to ready (range)", "from start to idle", "CPU until then", "reachable heap", "RSS", "highest RSS", "API server's RSS", "etcd"}
}

func renderNamespaces(grown []grown) string {
	rows := [][]string{append(heads("namespaces opted in, and as many not"), "of that by us, for a new one that opted in", "labels and grants of the new ones")}
	for _, g := range grown {
		rows = append(rows, append(g.columns(), g.ofNew()...))
	}
	return table(rows)
}

func renderClaims(grown []grown) string {
	rows := [][]string{append(heads("claims"), "of that by us, for a new one", "the new ones are ready", "CPU for a new one")}
	for _, g := range grown {
		rows = append(rows, append(append(g.columns(), g.ofNew()...), g.change()))
	}
	return table(rows)
}

func renderGrown(objects string, grown []grown) string {
	rows := [][]string{heads(objects)}
	for _, g := range grown {
		rows = append(rows, g.columns())
	}
	return table(rows)
}

func renderChanging(objects, change string, grown []grown) string {
	rows := [][]string{append(heads(objects), change)}
	for _, g := range grown {
		rows = append(rows, append(g.columns(), g.change()))
	}
	return table(rows)
}

// ofNew returns what the new objects took, if there were some.
func (g grown) ofNew() []string {
	if g.New == 0 {
		return []string{"", ""}
	}
	return []string{fmt.Sprintf("%s bytes", number(int(g.EtcdOurs)/g.New)), seconds(g.Granted)}
}

func (g grown) change() string {
	if g.Change == 0 {
		return ""
	}
	return ms(g.Change)
}

func (g grown) columns() []string {
	ready := seconds(g.ready())
	if n := len(g.Ready); n > 1 {
		ready += fmt.Sprintf(" (%s to %s)", seconds(g.Ready[0]), seconds(g.Ready[n-1]))
	}
	return []string{
		number(g.Objects), ready, seconds(g.Settled), seconds(g.CPU),
		mb(g.Injector.Heap), mb(g.Injector.RSS), mb(g.Injector.Highest), mb(g.APIServer), mb(g.Etcd),
	}
}

// ready returns the median.
func (g grown) ready() time.Duration { return framework.Percentile(g.Ready, 50) }

func renderCreations(created []created) string {
	rows := [][]string{{
		"pods a second", "not opted in: created a second", "median", "p99", "opted in: created a second", "median", "p99",
		"median of ours more (95%)", "p99 of ours more (95%)",
		"API server's CPU for a pod, not opted in", "opted in", "injector's CPU for a pod", "failed",
	}}
	for _, c := range created {
		rows = append(rows, []string{
			number(c.Rate), rate(c.PlainReached), ms(c.PlainP50), ms(c.PlainP99), rate(c.OursReached), ms(c.OursP50), ms(c.OursP99),
			ms(c.Added) + " ± " + ms(c.AddedHalf), ms(c.AddedP99) + " ± " + ms(c.AddedP99Half),
			ms(c.ServerPlain), ms(c.ServerOurs), ms(c.Injector), number(c.Failed),
		})
	}
	return table(rows)
}

func renderReviews(reviews []loaded) string {
	rows := [][]string{{"reviews a second", "of pods with", "answered", "failed", "given up", "answered a second", "median", "p99", "injector's CPU for a review", "reachable heap", "RSS", "highest RSS"}}
	for _, l := range reviews {
		rows = append(rows, append([]string{number(l.Rate), l.Kind}, l.columns()...))
	}
	return table(rows)
}

func renderImages(images []imagesRow) string {
	rows := [][]string{{"images", "reviews a second", "answered", "failed", "given up", "answered a second", "median", "p99", "injector's CPU for a review", "reachable heap", "RSS", "highest RSS"}}
	for _, i := range images {
		if i.Images == 0 {
			rows = append(rows, append([]string{"0", "", "", "", "", "", "", "", ""}, i.Injector.columns()...))
			continue
		}
		rows = append(rows, append([]string{number(i.Images), number(i.Rate)}, i.columns()...))
	}
	return table(rows)
}

func (l loaded) columns() []string {
	return append([]string{number(l.Answered), number(l.Failed), number(l.Unsent), rate(l.Reached), ms(l.P50), ms(l.P99), ms(l.CPU)}, l.Injector.columns()...)
}

func (m memory) columns() []string { return []string{mb(m.Heap), mb(m.RSS), mb(m.Highest)} }

func renderLogs(logs []logged) string {
	rows := [][]string{{
		"streams", "all exist after", "writes", "writes a second", "requests made again", "median", "p99",
		"CPU of the log service", "RSS", "highest RSS", "API server's CPU",
	}}
	for _, l := range logs {
		rows = append(rows, []string{
			number(l.Streams), seconds(l.Begun), number(l.Writes), rate(float64(l.Writes) / l.Measured.Seconds()), number(l.Repeated), ms(l.P50), ms(l.P99),
			cores(l.Cores), mb(l.RSS), mb(l.Highest), cores(l.ServerCores),
		})
	}
	return table(rows)
}

// renderRecords says when the parts were measured, and beside what.
func renderRecords(f figures) string {
	if len(f.Parts) == 0 {
		return ""
	}
	rows := [][]string{{"part", "took", "began (UTC)", "cores", "load average before", "after", "cores that others used", "namespaces that existed", "failed"}}
	for _, r := range f.Parts {
		rows = append(rows, []string{
			r.Part, r.Took.Round(time.Second).String(), r.Began.UTC().Format("2006-01-02 15:04"), number(r.Cores),
			fmt.Sprintf("%.1f", r.LoadBefore), fmt.Sprintf("%.1f", r.LoadAfter), fmt.Sprintf("%.2f", r.Others), number(r.Beside), r.Failed,
		})
	}
	extents := map[string]string{whole.name: "the whole extent: `make scale ARGS=-update`", brief.name: "a smaller extent: `make scale ARGS='-short -update'`", sample.name: "the smallest extent: `make scale-sample`"}
	return fmt.Sprintf("Of %s. Others are programs and virtual machines that are no part of the run.\n\n%s", extents[f.Extent], table(rows))
}

// write replaces the tables of the page, the data and the picture.
func write(f figures) error {
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(top, filepath.FromSlash(data)), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(top, filepath.FromSlash(picture)), []byte(draw(f)), 0o644); err != nil {
		return err
	}
	for _, s := range sections(f) {
		if err := framework.ReplaceIn(s.page, s.name, s.text); err != nil {
			return err
		}
	}
	return nil
}

// formerFigures reads the figures of the last run, if there was one. A run of single parts
// keeps those of the others.
func formerFigures() (former figures, _ error) {
	top, err := framework.RepositoryRoot()
	if err != nil {
		return former, err
	}
	text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(data)))
	if errors.Is(err, fs.ErrNotExist) {
		return former, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &former)
	}
	if err != nil {
		return former, fmt.Errorf("reading the figures of the last run: %w", err)
	}
	return former, nil
}

// checkExtent returns an error unless a run of single parts has the extent of the figures
// that it keeps.
func checkExtent(p plan) error {
	former, err := formerFigures()
	if err == nil && former.Extent != p.name {
		err = fmt.Errorf("choosing parts: %s isn't of a run of the same extent; measure all parts, or as many objects", data)
	}
	return err
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func mb(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

func rate(r float64) string { return fmt.Sprintf("%.0f", r) }

func cores(c float64) string { return fmt.Sprintf("%.2f cores", c) }

// number writes a number with commas.
func number(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
