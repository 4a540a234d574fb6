// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write monitoring/dashboard.json, and the alerts in docs/operations.md")

const (
	top           = "../.."
	monitoring    = top + "/monitoring/"
	dashboardFile = monitoring + "dashboard.json"
	rulesFile     = monitoring + "rules.yaml"
)

// promtool is Prometheus' own program for checks.
var promtool string

func TestMain(m *testing.M) {
	flag.Parse()
	status, err := withPromtool(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(status)
}

// withPromtool compiles promtool without the clients of clouds by which Prometheus finds
// servers: they would take minutes.
func withPromtool(m *testing.M) (status int, err error) {
	directory, err := os.MkdirTemp("", "monitoring")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(directory)
	promtool = filepath.Join(directory, "promtool")
	build := exec.Command("go", "build", "-tags", "remove_all_sd", "-ldflags", "-s -w", "-o", promtool, "github.com/prometheus/prometheus/cmd/promtool")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("running %q: %w: %s", build.Args, err, out)
	}
	return m.Run(), nil
}

// alerts are the rules of all groups.
func alerts(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	file, errs := rulefmt.ParseFile(rulesFile, false, model.LegacyValidation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
	require.Empty(t, errs)
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}
