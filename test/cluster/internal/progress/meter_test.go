// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"
)

func testMeter(t *testing.T) *Meter {
	t.Helper()
	m := NewMeter(filepath.Join(t.TempDir(), "cache", "durations.json"))
	t.Cleanup(m.Close)
	return m
}

func TestTheShareThatIsDoneFollowsTheUnits(t *testing.T) {
	m := testMeter(t)
	modules := m.Part("modules", 30, time.Second)
	node := m.Part("node", 100, 10*time.Second)
	before := m.Part("before", 1, time.Hour)
	before.Done() // by an earlier run
	modules.Begin(20)
	for range 25 { // more than there should be
		modules.Advance("downloading")
	}
	node.Begin(98)
	for range 49 {
		node.Advance("compiling x")
	}
	// 20 s and half of 980 s of what was expected, in twice the time.
	done, left := m.state(m.began.Add(1020 * time.Second))
	if done != 0.51 {
		t.Errorf("done: got %v", done)
	}
	if left < 14*time.Minute || left > 17*time.Minute {
		t.Errorf("left: got %v, want nearly twice what was expected", left)
	}
	if got, want := m.text(m.began.Add(1020*time.Second)), "51 %, about 15 minutes left: compiling x"; got != want {
		t.Errorf("text: got %q, want %q", got, want)
	}
}

func TestAMeterWithoutWorkIsDone(t *testing.T) {
	if done, left := testMeter(t).state(time.Now()); done != 1 || left != 0 {
		t.Errorf("state: got %v, %v", done, left)
	}
}

func TestTheRecordCountsMoreThanWhatWasExpected(t *testing.T) {
	m := testMeter(t)
	part := m.Part("node", 10, time.Hour)
	part.Begin(10)
	part.began = part.began.Add(-time.Minute)
	part.Done()
	again := m.Part("node", 10, time.Hour)
	if again.unit.Round(time.Second) != 6*time.Second {
		t.Errorf("unit: got %v, want what it took", again.unit)
	}
}

func TestAPartThatNobodyWatches(t *testing.T) {
	var part *Part
	part.Begin(3)
	part.Advance("a")
	part.SetStatus("b")
	part.Done()
}

func TestMinutesAreToldAsAPersonWould(t *testing.T) {
	for left, want := range map[time.Duration]string{
		10 * time.Second: "less than a minute left",
		50 * time.Second: "about 1 minute left",
		89 * time.Second: "about 1 minute left",
		91 * time.Second: "about 2 minutes left",
		14 * time.Minute: "about 14 minutes left",
	} {
		if got := about(left); got != want {
			t.Errorf("%v: got %q, want %q", left, got, want)
		}
	}
}

func TestALineThatMovesStaysBelowTheOthers(t *testing.T) {
	var out bytes.Buffer
	s := screen{out: &out, width: func() int { return 10 }}
	s.print("one")
	s.show("0123456789")
	s.show("0123456789") // as it was
	s.print("two")
	s.show("")
	s.print("three")
	want := "one\n" + eraseLine + "012345678" + eraseLine + "two\n012345678" + eraseLine + "three\n"
	if out.String() != want {
		t.Errorf("screen: got %q, want %q", out.String(), want)
	}
}
