// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Demo runs the examples twice, in a namespace that opted in and in one that
// didn't, and shows the difference: what the containers' commands were and have
// become, that they ran under the supervisor, and that they did the same. The first
// example runs once more by each other delivery.
//
//	go run ./test/demo
//
// It needs a cluster with the product installed ("make demo" sees to both),
// leaves everything up to look around in, and fails if anything is not as it
// claims. Package framework describes the environment that it reads.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	optedIn = "demo"
	plain   = "demo-plain"
)

func main() {
	update := flag.Bool("update", false, "write the logs that are read into docs/logs.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := demo(ctx, newTerminal(os.Stdout), *update)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, out *terminal, update bool) error {
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	err = out.during("Cluster, Tekton, Knative and the injector answer", func() error {
		if err := cluster.Preflight(ctx); err != nil {
			return err
		}
		return cluster.WaitForInjector(ctx)
	})
	if err != nil {
		return err
	}
	ways, err := otherWays(cluster)
	if err != nil {
		return err
	}
	if err := out.during("Namespace "+optedIn+" opts in, "+plain+" doesn't", func() error { return makeNamespaces(ctx, cluster, ways) }); err != nil {
		return err
	}
	if err := out.during("Images are built, what an earlier demo left is gone", func() error { return prepare(ctx, cluster, ways) }); err != nil {
		return err
	}
	shown, err := runAll(ctx, cluster, ways, out)
	if err != nil {
		return err
	}
	var questions []*question
	if err := out.during("The plugin of kubectl answers", func() (err error) { questions, err = askQuestions(ctx); return err }); err != nil {
		return err
	}
	var opened openedPage
	if err := out.during("The page of the plugin answers", func() (err error) { opened, err = openPage(ctx); return err }); err != nil {
		return err
	}
	claimed, failed := show(out, shown.results)
	for _, more := range []func() (claimed, failed int){
		func() (int, int) { return showWays(out, shown.ways) },
		func() (int, int) { return showLogs(out, shown.readings) },
		func() (int, int) { return showQuestions(out, questions) },
		func() (int, int) { return showPage(out, opened) },
	} {
		c, f := more()
		claimed, failed = claimed+c, failed+f
	}
	showHowToLookAround(ctx, cluster, ways, out)
	if failed > 0 {
		return fmt.Errorf("%d of %d claims don't hold: see the lines with %s", failed, claimed, cross)
	}
	out.heading(fmt.Sprintf("All %d claims hold.", claimed), "")
	showHowToOpenThePage(out)
	if !update {
		return nil
	}
	return framework.ReplaceIn(framework.Logs, "demo-logs", console(shown.readings))
}

func makeNamespaces(ctx context.Context, cluster *framework.Cluster, ways []way) error {
	all := map[string]string{
		optedIn: fmt.Sprintf(`{%q:"true"}`, pod.InjectAnnotation),
		plain:   fmt.Sprintf(`{%q:null}`, pod.InjectAnnotation),
	}
	for _, w := range ways {
		all[w.namespace] = fmt.Sprintf(`{%q:"true",%q:%q}`, pod.InjectAnnotation, pod.DeliveryAnnotation, w.delivery)
	}
	for name, annotations := range all {
		if err := makeNamespace(ctx, cluster, name, annotations); err != nil {
			return err
		}
	}
	return nil
}

// makeNamespace sees to a namespace with these annotations, which are JSON.
func makeNamespace(ctx context.Context, cluster *framework.Cluster, name, annotations string) error {
	namespaces := cluster.Kube.CoreV1().Namespaces()
	_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %q: %w", name, err)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":%s}}`, annotations)
	ns, err := namespaces.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("annotating namespace %q: %w", name, err)
	}
	if _, labelled := ns.Labels[pod.InjectAnnotation]; labelled != (name != plain) {
		return fmt.Errorf("annotating namespace %q: its labels don't follow: %v", name, ns.Labels)
	}
	return nil
}

// prepare removes the examples that an earlier demo left, so that it all happens anew.
func prepare(ctx context.Context, cluster *framework.Cluster, ways []way) error {
	places := map[string][]string{logsExample: {optedIn}}
	for _, e := range examples {
		places[e.file] = []string{optedIn, plain}
	}
	for _, w := range ways {
		places[byWays.file] = append(places[byWays.file], w.namespace)
	}
	for file, namespaces := range places {
		objects, err := framework.Example(ctx, file)
		if err != nil {
			return err
		}
		for _, namespace := range namespaces {
			if err := cluster.Delete(ctx, namespace, objects...); err != nil {
				return err
			}
		}
	}
	return nil
}
