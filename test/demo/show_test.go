// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// asClaimed is an example about which all claims hold.
func asClaimed() result {
	plain := container{
		name: "main", command: []string{"/tekton/scripts/script-0-abcde"}, args: []string{"--"}, said: "hello\n", exit: "0",
		processes: []framework.Process{{PID: 1, Command: "/tekton/scripts/script-0-abcde --"}},
	}
	wrapped := plain
	wrapped.command = []string{pod.EntrypointPath}
	wrapped.args = []string{"--", "/tekton/scripts/script-0-vwxyz", "--"}
	wrapped.processes = []framework.Process{{PID: 1, Command: pod.EntrypointPath + " -- /tekton/scripts/script-0-vwxyz --"}}
	return result{
		example: example{title: "Example", file: "example.yaml"},
		plain:   run{verdict: "Succeeded", containers: []container{plain}, facts: []fact{{"result", "42"}}},
		wrapped: run{verdict: "Succeeded", containers: []container{wrapped}, facts: []fact{{"result", "42"}}},
	}
}

func TestAClaimThatDoesNotHoldIsCountedAndShown(t *testing.T) {
	for what, spoil := range map[string]func(*result){
		"":                          func(*result) {},
		"in both namespaces":        func(r *result) { r.wrapped.verdict = "not Succeeded" },
		"result in both":            func(r *result) { r.wrapped.facts[0].value = "41" },
		"PID 1 is the supervisor":   func(r *result) { r.wrapped.containers[0].processes = nil },
		"same command":              func(r *result) { r.wrapped.containers[0].args = []string{"--", "sh"} },
		"same output, same exit":    func(r *result) { r.wrapped.containers[0].exit = "1" },
		"1 container of the user's": func(r *result) { r.plain.containers = append(r.plain.containers, container{}) },
	} {
		r := asClaimed()
		spoil(&r)
		var shown strings.Builder
		claimed, failed := show(&terminal{to: &shown, width: 80}, []result{r})
		require.Equal(t, 6, claimed)
		if what == "" {
			require.Zero(t, failed, shown.String())
			continue
		}
		require.Equal(t, 1, failed, shown.String())
		require.Regexp(t, cross+` .*`+what+`.*, but it is not so: plain: `, shown.String())
	}
}

func TestAnotherDeliveryIsShownWithWhatDiffers(t *testing.T) {
	for what, spoil := range map[string]func(*wayResult){
		"":                             func(*wayResult) {},
		"status: Injected by claim":    func(r *wayResult) { r.status = "Injected by init-container" },
		"no init container":            func(r *wayResult) { r.initContainers = []string{"prepare", pod.InitContainerName} },
		"Succeeded in both namespaces": func(r *wayResult) { r.wrapped.verdict = "not Succeeded" },
		"main is wrapped and the same": func(r *wayResult) { r.wrapped.containers[0].said = "bye" },
		"1 container of the user's":    func(r *wayResult) { r.plain.containers = nil },
	} {
		r := wayResult{way: way{framework.Claim, "demo-claim"}, result: asClaimed(), status: "Injected by claim", initContainers: []string{"prepare"}}
		spoil(&r)
		var shown strings.Builder
		claimed, failed := showWays(&terminal{to: &shown, width: 80}, []wayResult{r})
		require.Equal(t, 6, claimed)
		require.Equal(t, what == "", failed == 0, shown.String())
		require.Contains(t, shown.String(), "entrypointer.dev/delivery=claim")
		if what != "" {
			require.Regexp(t, cross+` .*`+what+`.*, but it is not so: `, shown.String())
		}
	}
}

func TestALongCommandLosesItsMiddle(t *testing.T) {
	require.Equal(t, "entryp…nd", shorten("entrypoint and so on to the end", 9))
	require.Equal(t, "a b", shorten("a\nb\n", 9))
}

func TestColourIsForScreensOnly(t *testing.T) {
	require.Equal(t, "text", (&terminal{}).paint(red, "text"))
	require.Equal(t, "\x1b[31mtext\x1b[0m", (&terminal{colour: true}).paint(red, "text"))
}

func TestAClaimAboutALogThatDoesNotHoldIsCountedAndShown(t *testing.T) {
	for what, spoil := range map[string]func(*reading){
		"":                  func(*reading) {},
		"the pods are gone": func(r *reading) { r.left = 1 },
		"the cluster's logs had the command that reads the output, and nothing else": func(r *reading) { r.elsewhere += "uploaded\n" },
		"each line is there": func(r *reading) { r.text = strings.TrimSuffix(r.text, "[pod/logs-pod/step-upload] uploaded\n") },
		"the secret isn't": func(r *reading) {
			r.text = strings.ReplaceAll(r.text, "YWRtaW46****", "YWRtaW46****"+base64.StdEncoding.EncodeToString([]byte(secret)))
		},
	} {
		r := newReadings("logs")[0]
		r.text = strings.Join(r.expected, "\n") + "\n"
		r.elsewhere = pointer + "logs-pod -c step-login\n" + pointer + "logs-pod -c step-upload\n"
		spoil(r)
		var shown strings.Builder
		claimed, failed := showLogs(&terminal{to: &shown, width: 80}, []*reading{r})
		require.Equal(t, 4, claimed)
		require.Contains(t, shown.String(), "$ kubectl entrypointer logs -n demo taskrun/logs\n")
		if what == "" {
			require.Zero(t, failed, shown.String())
			continue
		}
		require.Equal(t, 1, failed, shown.String())
		require.Contains(t, shown.String(), cross+" "+what+", but it is not so: ")
	}
}

func TestALogInTheClusterPointsToTheOutputAndHasNoneOfIt(t *testing.T) {
	line := pointer + "logs-pod -c step-login\n"
	for log, want := range map[string]bool{
		line:                  true,
		line + line:           true,
		"":                    false,
		line + "uploaded\n":   false,
		"uploaded\n" + line:   false,
		"see " + line:         false,
		strings.ToUpper(line): false,
		line + "\n":           false,
	} {
		require.Equal(t, want, pointsOnly(log), "%q", log)
	}
}

func TestTheClusterOfTheDemoIsTheOneThatItSaysHowToEnd(t *testing.T) {
	for cluster, want := range map[string]string{"": "make down", "kind": "make down CLUSTER=kind"} {
		t.Setenv("CLUSTER", cluster)
		require.Equal(t, want, endCluster())
	}
}

func TestAnAnswerThatIsNotTheExpectedOneIsCountedAndShown(t *testing.T) {
	for what, spoil := range map[string]func(*question){
		"":                    func(*question) {},
		`it says "A pod that`: func(q *question) { q.answer = "nothing" },
		"its exit code is 0":  func(q *question) { q.code = 1 },
	} {
		q := newQuestions()[0]
		q.answer = q.expected + "\n"
		spoil(q)
		var shown strings.Builder
		claimed, failed := showQuestions(&terminal{to: &shown, width: 80}, []*question{q})
		require.Equal(t, 2, claimed)
		require.Contains(t, shown.String(), "$ kubectl entrypointer why -n demo deployment/clock\n")
		if what == "" {
			require.Zero(t, failed, shown.String())
			continue
		}
		require.Equal(t, 1, failed, shown.String())
		require.Contains(t, shown.String(), cross+" "+what)
	}
}
