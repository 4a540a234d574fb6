// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMetrics bounds the metrics of a replica, in bytes.
const maxMetrics = 4 << 20

// mostReplicas bounds the replicas whose metrics are read.
const mostReplicas = 20

// The right to read metrics, in the words of kubectl auth can-i.
const rightToScrape = "get pods/proxy -n "

// A scrape has the metrics of all replicas of a Deployment, which the API server reads
// from their pods.
type scrape struct {
	once     sync.Once
	replicas []metrics
	err      error
}

// metrics are those of a pod, by name.
type metrics struct {
	pod      string
	families map[string]*dto.MetricFamily
}

// read reads the metrics of the replicas, once.
func (s *scrape) read(ctx context.Context, q *inquiry, namespace, app, port string) ([]metrics, error) {
	s.once.Do(func() {
		var pods []string
		s.err = q.list(ctx, "/api/v1/namespaces/"+namespace+"/pods", "", func(p metav1.PartialObjectMetadata) {
			if p.Labels["app.kubernetes.io/name"] == app && p.DeletionTimestamp == nil {
				pods = append(pods, p.Name)
			}
		})
		for _, name := range pods[:min(len(pods), mostReplicas)] {
			m, err := q.metricsOf(ctx, namespace, name, port)
			if err != nil {
				s.err = cmp.Or(s.err, err)
				continue
			}
			s.replicas = append(s.replicas, m)
		}
	})
	return s.replicas, s.err
}

// metricsOf reads the metrics of a pod.
func (q *inquiry) metricsOf(ctx context.Context, namespace, pod, port string) (m metrics, _ error) {
	body, err := q.REST.Get().AbsPath("/api/v1/namespaces", namespace, "pods", pod+":"+port, "proxy", "metrics").Stream(ctx)
	if err != nil {
		return m, fmt.Errorf("reading the metrics of pod %q: %w", pod, err)
	}
	defer body.Close()
	text, err := askedFor(io.LimitReader(body, maxMetrics))
	if err != nil {
		return m, fmt.Errorf("reading the metrics of pod %q: %w", pod, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return m, fmt.Errorf("reading the metrics of pod %q: %w", pod, err)
	}
	return metrics{pod, families}, nil
}

// asked are the metrics that the checks look at.
var asked = []string{
	injectorInfo, "entrypointer_config_faulty_keys", "entrypointer_delivery_image_volumes",
	logsInfo, "entrypointer_logs_config_faulty", "entrypointer_logs_keeper_postponed_streams",
	"entrypointer_logs_storage_free_bytes", "entrypointer_logs_storage_free_inodes",
}

// mostLines bounds the lines of metrics that are kept: parsed ones take many times as much
// memory.
const mostLines = 200

// askedFor returns the lines of metrics that the checks look at.
func askedFor(text io.Reader) (io.Reader, error) {
	var kept bytes.Buffer
	lines := bufio.NewScanner(text)
	for count := 0; lines.Scan() && count < mostLines; {
		name := strings.TrimPrefix(lines.Text(), "# TYPE ")
		if end := strings.IndexAny(name, "{ "); end > 0 && slices.Contains(asked, name[:end]) {
			kept.WriteString(lines.Text() + "\n")
			count++
		}
	}
	return &kept, lines.Err()
}

// A sample is a value of a metric.
type sample struct {
	labels map[string]string
	value  float64
}

// gauge returns the values of a gauge that each replica has. Without it, the replica is of
// another release, or isn't ours.
func (a *answer) gauge(m metrics, name string) []sample {
	all := m.gauge(name)
	if len(all) == 0 {
		a.add(Unknown, "pod "+m.pod+" doesn't tell "+name, "")
	}
	return all
}

// gauge returns the values of a gauge.
func (m *metrics) gauge(name string) (all []sample) {
	for _, metric := range m.families[name].GetMetric() {
		one := sample{map[string]string{}, metric.GetGauge().GetValue()}
		for _, l := range metric.GetLabel() {
			one.labels[l.GetName()] = l.GetValue()
		}
		all = append(all, one)
	}
	return all
}
