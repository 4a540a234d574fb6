// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is that of the intervals in the tables.
const Confidence = 0.95

// Interval is the mean of what was measured, and half of the interval around it in
// which the true one is with [Confidence] (Student's). Fewer than two values leave
// everything open.
func Interval(values []float64) (mean, half float64) {
	if len(values) == 0 {
		return 0, math.Inf(1)
	}
	if len(values) == 1 {
		return values[0], math.Inf(1)
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	quantile := distuv.StudentsT{Sigma: 1, Nu: float64(len(values) - 1)}.Quantile((1 + Confidence) / 2)
	return mean, quantile * stat.StdErr(deviation, float64(len(values)))
}
