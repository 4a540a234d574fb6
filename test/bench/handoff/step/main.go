// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Step takes as long as its first argument says, and prints when it began and
// when it ended.
package main

import (
	"fmt"
	"log"
	"os"
	"time"
)

func main() {
	began := time.Now()
	if len(os.Args) < 2 {
		log.Fatal("usage: step DURATION [ignored...]")
	}
	takes, err := time.ParseDuration(os.Args[1])
	if err != nil {
		log.Fatalf("parsing how long to take: %v", err)
	}
	time.Sleep(takes - time.Since(began))
	fmt.Println(began.Format(time.RFC3339Nano), time.Now().Format(time.RFC3339Nano))
}
