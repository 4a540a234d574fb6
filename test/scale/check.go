// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// The bounds of a sample. They are generous: a sample is for what is wrong by a factor, on
// any machine.
const (
	sampleNamespace = 4 << 10   // bytes of the heap for each namespace
	samplePods      = 512 << 10 // bytes of the heap for all pods
)

// check returns what is wrong with the figures of a sample, but for times.
func check(f figures) error {
	return errors.Join(checkNothingFailed(f), checkMemory(f), checkOutputs(f))
}

func checkNothingFailed(f figures) (wrong error) {
	count := func(what string, n int) {
		if n > 0 {
			wrong = errors.Join(wrong, fmt.Errorf("checking the sample: %d %s failed", n, what))
		}
	}
	for _, c := range f.Creations {
		count(fmt.Sprintf("creations of pods at %d a second", c.Rate), c.Failed)
	}
	for _, l := range f.Reviews {
		count("reviews of pods with "+l.Kind, l.Failed)
	}
	for _, i := range f.Images {
		count("reviews of pods with "+i.Kind, i.Failed)
	}
	return wrong
}

func checkMemory(f figures) (wrong error) {
	if n := len(f.Namespaces); n < 2 {
		wrong = errors.Join(wrong, errors.New("checking the sample: it has no growth with namespaces"))
	} else if each := perNamespace(f.Namespaces[0], f.Namespaces[n-1], func(m memory) int64 { return m.Heap }); each > sampleNamespace {
		wrong = errors.Join(wrong, fmt.Errorf("checking the sample: the heap grows by %d bytes for each namespace, and %d are the most; "+
			"SCALE_PROFILES=DIRECTORY keeps profiles of it", each, sampleNamespace))
	}
	if n := len(f.Pods); n < 2 {
		wrong = errors.Join(wrong, errors.New("checking the sample: it has no growth with pods"))
	} else if grown := f.Pods[n-1].Injector.Heap - f.Pods[0].Injector.Heap; grown > samplePods {
		wrong = errors.Join(wrong, fmt.Errorf("checking the sample: the heap grows by %d bytes with %d pods, and %d are the most: something keeps pods",
			grown, f.Pods[n-1].Objects, samplePods))
	}
	return wrong
}

// checkOutputs returns an error unless what a run writes can be read.
func checkOutputs(f figures) error {
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("checking the sample: encoding the figures: %w", err)
	}
	var again figures
	if err := json.Unmarshal(text, &again); err != nil {
		return fmt.Errorf("checking the sample: decoding the figures: %w", err)
	}
	if !reflect.DeepEqual(f, again) {
		return fmt.Errorf("checking the sample: the figures are others after decoding: %+v and %+v", f, again)
	}
	decoder := xml.NewDecoder(strings.NewReader(draw(f)))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("checking the sample: decoding the picture: %w", err)
		}
	}
	for _, s := range sections(f) {
		if s.text == "" {
			return fmt.Errorf("checking the sample: %s of %s is empty", s.name, s.page)
		}
		if err := checkTables(s.text); err != nil {
			return fmt.Errorf("checking the sample: %s of %s: %w", s.name, s.page, err)
		}
	}
	return nil
}

// checkTables returns an error unless all rows of a table have as many cells.
func checkTables(text string) error {
	cells := 0
	for line := range strings.Lines(text) {
		switch n := strings.Count(line, "|"); {
		case n == 0:
			cells = 0
		case cells == 0:
			cells = n
		case n != cells:
			return fmt.Errorf("a row has %d cells, and the head %d: %q", n-1, cells-1, line)
		}
	}
	return nil
}
