// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// show prints the results, and returns how many claims there were and how many don't hold.
func show(out *terminal, results []result) (claimed, failed int) {
	for _, r := range results {
		out.heading(r.example.title, "examples/"+r.example.file)
		claims := claimsOfRun(r)
		failed += out.claims("  ", claims)
		claimed += len(claims)
		for _, wrapped := range r.wrapped.containers {
			unwrapped := find(r.plain.containers, wrapped.name)
			showContainer(out, unwrapped, wrapped)
			claims := claimsOfContainer(unwrapped, wrapped)
			failed += out.claims("    ", claims)
			claimed += len(claims)
		}
	}
	return claimed, failed
}

func showContainer(out *terminal, unwrapped, wrapped container) {
	out.subheading(wrapped.name)
	out.field("before", commandLine(unwrapped))
	out.field("after", commandLine(wrapped))
	var inside []string
	for _, p := range wrapped.processes {
		if p.Command != strings.Join(ps, " ") && !strings.HasPrefix(p.Command, "{ps} ") {
			inside = append(inside, fmt.Sprintf("%4d %s", p.PID, p.Command))
		}
	}
	out.fields("inside", inside)
	out.fields("output", strings.Split(strings.TrimRight(wrapped.said, "\n"), "\n"))
	out.field("exit", wrapped.exit)
}

func find(all []container, name string) container {
	if at := slices.IndexFunc(all, func(c container) bool { return c.name == name }); at >= 0 {
		return all[at]
	}
	return container{name: name}
}

func commandLine(c container) string {
	if len(c.command) == 0 {
		return strings.Join(append([]string{"(what the image says)"}, c.args...), " ")
	}
	return strings.Join(slices.Concat(c.command, c.args), " ")
}

// claim is something that the demo claims, and whether it holds.
type claim struct {
	holds bool
	text  string
	// but is what was seen instead.
	but string
}

func claimsOfRun(r result) []claim {
	containers := fmt.Sprintf("%d containers", len(r.wrapped.containers))
	if len(r.wrapped.containers) == 1 {
		containers = "1 container"
	}
	claims := []claim{{
		holds: r.plain.verdict == r.wrapped.verdict && !strings.HasPrefix(r.wrapped.verdict, "not "),
		text:  fmt.Sprintf("%s in both namespaces", r.wrapped.verdict),
		but:   fmt.Sprintf("plain: %s; wrapped: %s", r.plain.verdict, r.wrapped.verdict),
	}, {
		holds: len(r.plain.containers) == len(r.wrapped.containers) && len(r.wrapped.containers) > 0,
		text:  containers + " of the user's",
		but:   fmt.Sprintf("plain: %d; wrapped: %d", len(r.plain.containers), len(r.wrapped.containers)),
	}}
	for i, f := range r.wrapped.facts {
		var other fact
		if i < len(r.plain.facts) {
			other = r.plain.facts[i]
		}
		claims = append(claims, claim{
			holds: f == other && f.value != "",
			text:  fmt.Sprintf("%s in both: %s", f.name, strings.TrimSpace(f.value)),
			but:   fmt.Sprintf("plain: %q; wrapped: %q", other.value, f.value),
		})
	}
	return claims
}

func claimsOfContainer(plain, wrapped container) []claim {
	first, before := framework.PID1Command(wrapped.processes), framework.PID1Command(plain.processes)
	return []claim{{
		holds: strings.HasPrefix(first, pod.EntrypointPath+" ") && before != "" && !strings.Contains(before, pod.EntrypointPath),
		text:  "PID 1 is the supervisor, was " + firstWord(before),
		but:   fmt.Sprintf("plain: %q; wrapped: %q", before, first),
	}, {
		holds: followsTheRule(plain, wrapped),
		text:  "same command after --",
		but:   fmt.Sprintf("plain: %q; wrapped: %q %q", slices.Concat(plain.command, plain.args), wrapped.command, wrapped.args),
	}, {
		holds: plain.said == wrapped.said && plain.exit == wrapped.exit,
		text:  "same output, same exit",
		but:   fmt.Sprintf("plain: %q, exit %s; wrapped: %q, exit %s", plain.said, plain.exit, wrapped.said, wrapped.exit),
	}}
}

// followsTheRule compares commands: after ours comes the author's, to the
// letter. Where there was none, what ran there as PID 1.
func followsTheRule(plain, wrapped container) bool {
	end := slices.Index(wrapped.args, "--") // of the supervisor's own flags
	if !slices.Equal(wrapped.command, []string{pod.EntrypointPath}) || end < 0 {
		return false
	}
	argv := wrapped.args[end+1:]
	if len(plain.command) > 0 {
		return slices.Equal(withoutChance(argv), withoutChance(slices.Concat(plain.command, plain.args)))
	}
	return strings.Join(argv, " ") == framework.PID1Command(plain.processes)
}

// scriptName is what Tekton calls a step's script; its end is random.
var scriptName = regexp.MustCompile(`^/tekton/scripts/script-\d+-\w+$`)

func withoutChance(argv []string) []string {
	same := make([]string, len(argv))
	for i, word := range argv {
		same[i] = scriptName.ReplaceAllString(word, "/tekton/scripts/script")
	}
	return same
}

func firstWord(command string) string {
	word, _, _ := strings.Cut(command, " ")
	return word
}

func showHowToLookAround(ctx context.Context, cluster *framework.Cluster, ways []way, out *terminal) {
	out.heading("Look around", "")
	out.command("go build -o ~/bin/ ./cmd/kubectl-entrypointer    # or another directory of PATH")
	out.command("kubectl entrypointer why -n " + optedIn + " taskrun/steps")
	out.command("kubectl entrypointer status -n " + optedIn + " deployment/clock")
	out.command("kubectl entrypointer timeline -n " + optedIn + " taskrun/steps")
	out.command("kubectl entrypointer check")
	out.command("kubectl -n " + optedIn + " get pods")
	out.command("kubectl -n " + optedIn + " get pod steps-pod -o yaml")
	for _, w := range ways {
		out.command("kubectl -n " + w.namespace + " get pod steps-pod -o yaml")
	}
	out.command("kubectl -n " + optedIn + " exec deploy/clock -c clock -- ps -o pid,args")
	out.command("kubectl -n " + plain + " exec deploy/clock -c clock -- ps -o pid,args")
	if service, err := cluster.Serving.ServingV1().Services(optedIn).Get(ctx, "hello", metav1.GetOptions{}); err == nil && service.Status.URL != nil {
		if ingress, err := cluster.Ingress(ctx, service); err == nil {
			out.command(fmt.Sprintf("curl --connect-to ::%s %s", ingress, service.Status.URL))
		}
	}
	out.command("kubectl -n " + framework.SystemNamespace + " logs deploy/" + framework.Injector)
	out.heading("Remove it", "")
	namespaces := optedIn + " " + plain
	for _, w := range ways {
		namespaces += " " + w.namespace
	}
	out.command("kubectl delete namespace " + namespaces)
	out.command("ko delete --ignore-not-found -f config/claims -f config/auto -f config/webhook -f config/logs    # or the whole cluster: " + endCluster())
}

// endCluster is the command that ends the cluster on which "make demo" runs the demo.
// make passes on a CLUSTER that it was given.
func endCluster() string {
	if kind := os.Getenv("CLUSTER"); kind != "" {
		return "make down CLUSTER=" + kind
	}
	return "make down"
}
