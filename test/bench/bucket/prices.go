// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

// The list prices of S3 (Standard, us-east-1, https://aws.amazon.com/s3/pricing/), in dollars
// for a request. COPY and POST cost as much as PUT, and HEAD as GET. DELETE is free. A request
// that fails costs as much.
const (
	priceOfPut  = 5e-6
	priceOfList = 5e-6
	priceOfGet  = 0.4e-6
	// priceOfStorage is for a GB in a month.
	priceOfStorage = 0.023
)

// The list prices of services that keep logs, in dollars for a GiB or a GB that is taken in.
const (
	// Cloud Logging (https://cloud.google.com/stackdriver/pricing): the first 50 GiB of a
	// project in a month are free, and 30 days of storage are included.
	priceOfCloudLogging = 0.50
	// CloudWatch Logs (https://aws.amazon.com/cloudwatch/pricing/, Standard, us-east-1), and
	// what it keeps, for a GB that it has compressed in a month.
	priceOfCloudWatch        = 0.50
	priceOfCloudWatchStorage = 0.03
)

const gib = 1 << 30

// A tally counts requests as S3 bills them.
type tally struct{ puts, lists, gets, deletes float64 }

// dollars is what the requests cost.
func (c tally) dollars() float64 {
	return c.puts*priceOfPut + c.lists*priceOfList + c.gets*priceOfGet
}

// total is the number of requests.
func (c tally) total() float64 { return c.puts + c.lists + c.gets + c.deletes }

func (c tally) minus(d tally) tally {
	return tally{c.puts - d.puts, c.lists - d.lists, c.gets - d.gets, c.deletes - d.deletes}
}

func (c tally) times(factor float64) tally {
	return tally{c.puts * factor, c.lists * factor, c.gets * factor, c.deletes * factor}
}
