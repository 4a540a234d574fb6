// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/test/framework"
)

// A plugin is kubectl with that of this checkout.
type plugin struct{ framework.Plugin }

func newPlugin(t *testing.T) plugin {
	t.Helper()
	p, err := framework.BuildPlugin(t.Context(), t.TempDir())
	require.NoError(t, err)
	return plugin{p}
}

// command is kubectl entrypointer logs with the credentials of a kubeconfig, or
// those of the tests, which are the administrator's client certificate.
func (p plugin) command(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	command := p.Logs(ctx, args...)
	if kubeconfig != "" {
		command.Env = append(command.Env, "KUBECONFIG="+kubeconfig)
	}
	return command
}

// reads is what is printed, once it has what is wanted.
func (p plugin) reads(t *testing.T, kubeconfig, wanted string, args ...string) string {
	t.Helper()
	var text []byte
	eventually(t, 30*time.Second, fmt.Sprint(args), func() (err error) {
		text, err = p.command(t.Context(), kubeconfig, args...).CombinedOutput()
		if err == nil && !strings.Contains(string(text), wanted) {
			err = errors.New("there is more to come")
		}
		if err != nil {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return err
	})
	return string(text)
}

// withToken is a kubeconfig that has a token and no certificate.
func withToken(t *testing.T, token string) (path string) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	from := rest.CopyConfig(cluster.Config)
	require.NoError(t, rest.LoadTLSFiles(from))
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: from.Host, CertificateAuthorityData: from.CAData}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "a"}
	config.CurrentContext = "c"
	path = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	return path
}

func TestLogsAreReadThroughTheAPIServer(t *testing.T) {
	t.Parallel()
	require.NoError(t, cluster.WaitForDeployment(t.Context(), endpoint.Namespace, "logs"))
	kubectl := newPlugin(t)
	for name, test := range map[string]func(*testing.T, plugin){
		"of a pod":               readsAPod,
		"of a pod that runs":     followsAPod,
		"of a run of tasks":      readsRuns,
		"of a Knative Service":   readsAService,
		"of a former Deployment": readsADeployment,
		"of before a restart":    readsARestart,
		"of the example":         readsTheExample,
		"of what is gone":        findsWhatIsGone,
		"by nobody who may not":  refusesWhoMayNot,
		"by no other front door": refusesForgedHeaders,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, kubectl)
		})
	}
}

func readsAPod(t *testing.T, kubectl plugin) {
	namespace, token := logsNamespace(t, "stream")
	createPod(t, namespace, askingPod("prints", busybox(t, "main", "sh", "-c", `echo one; echo two >&2; echo three`)))
	waitUntilDone(t, namespace, "prints")
	deletePod(t, namespace, "prints")
	viewer := withToken(t, token)
	for _, kubeconfig := range []string{"", viewer} {
		// What is printed to two streams at about the same time has no order between them.
		both := kubectl.reads(t, kubeconfig, "two", "-n", namespace, "pod/prints")
		require.ElementsMatch(t, []string{"one", "two", "three"}, strings.Fields(both))
		require.Less(t, strings.Index(both, "one"), strings.Index(both, "three"), both)
		require.Equal(t, "three\n", kubectl.reads(t, kubeconfig, "", "-n", namespace, "prints", "--stream", "stdout", "--tail", "1"))
		require.Equal(t, "[pod/prints/main] two\n", kubectl.reads(t, kubeconfig, "", "-n", namespace, "prints", "--stream=stderr", "-c", "main", "--prefix"))
	}
	out, err := exec.CommandContext(t.Context(), "kubectl", "api-resources", "--api-group", endpoint.Group).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "logs.entrypointer.dev/v1alpha1")
}

// It goes on for longer than the API server gives to a request that isn't long-running.
func followsAPod(t *testing.T, kubectl plugin) {
	namespace, token := logsNamespace(t, "stream")
	createPod(t, namespace, askingPod("prints", busybox(t, "main", "sh", "-c", `i=0; while [ $i -lt 100 ]; do echo "at $(date +%s)"; i=$((i+1)); sleep 1; done; echo end`)))
	waitUntilRunning(t, namespace, "prints")
	command := kubectl.command(t.Context(), withToken(t, token), "-n", namespace, "prints", "-f")
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	var warnings strings.Builder
	command.Stderr = &warnings
	require.NoError(t, command.Start())
	lines, last := 0, ""
	for scanner := bufio.NewScanner(out); scanner.Scan(); lines++ {
		last = scanner.Text()
		var at int64
		if _, err := fmt.Sscanf(last, "at %d", &at); err == nil && lines > 20 { // by then, it follows
			require.Less(t, time.Since(time.Unix(at, 0)), 30*time.Second)
		}
	}
	require.NoError(t, command.Wait(), warnings.String())
	require.Equal(t, 101, lines)
	require.Equal(t, "end", last)
	require.Empty(t, warnings.String())
}

func readsRuns(t *testing.T, kubectl plugin) {
	namespace, token := logsNamespace(t, "stream")
	task := func(name string, after ...string) pipelinev1.PipelineTask {
		return pipelinev1.PipelineTask{Name: name, RunAfter: after, TaskSpec: &pipelinev1.EmbeddedTask{TaskSpec: pipelinev1.TaskSpec{Steps: []pipelinev1.Step{
			{Name: "z", Image: image(t, "busybox:1.37"), Command: []string{"echo", name + " one"}},
			{Name: "a", Image: image(t, "busybox:1.37"), Command: []string{"echo", name + " two"}},
		}}}}
	}
	_, err := cluster.Tekton.TektonV1().PipelineRuns(namespace).Create(t.Context(), &pipelinev1.PipelineRun{
		ObjectMeta: metav1.ObjectMeta{Name: "release"},
		Spec:       pipelinev1.PipelineRunSpec{PipelineSpec: &pipelinev1.PipelineSpec{Tasks: []pipelinev1.PipelineTask{task("build"), task("test", "build")}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	viewer := withToken(t, token)
	var want strings.Builder
	for _, name := range []string{"build", "test"} {
		fmt.Fprintf(&want, "[pod/release-%s-pod/step-z] %s one\n[pod/release-%s-pod/step-a] %s two\n", name, name, name, name)
	}

	// Who follows from the beginning sees both tasks, and the end.
	eventually(t, 2*time.Minute, "the first task to have printed", func() error {
		out, err := kubectl.command(t.Context(), viewer, "-n", namespace, "pipelinerun/release").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	limited, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	followed, err := kubectl.command(limited, viewer, "-n", namespace, "pipelinerun/release", "-f", "--prefix").CombinedOutput()
	require.NoError(t, err, string(followed))
	require.ElementsMatch(t, strings.Split(want.String(), "\n"), strings.Split(string(followed), "\n"))

	_, err = cluster.WaitForPipelineRun(t.Context(), namespace, "release")
	require.NoError(t, err)
	require.NoError(t, cluster.Tekton.TektonV1().PipelineRuns(namespace).Delete(t.Context(), "release", metav1.DeleteOptions{}))
	for _, kubeconfig := range []string{"", viewer} {
		require.Equal(t, want.String(), kubectl.reads(t, kubeconfig, "test two", "-n", namespace, "pipelinerun/release"))
		require.Equal(t, "build one\nbuild two\n", kubectl.reads(t, kubeconfig, "two", "-n", namespace, "taskrun/release-build", "--prefix=false"))
	}
}

func readsAService(t *testing.T, kubectl plugin) {
	namespace, token := logsNamespace(t, "stream")
	service := helloService(t, namespace, func(template *servingv1.RevisionTemplateSpec) {
		template.Annotations = map[string]string{"autoscaling.knative.dev/window": "6s"}
	})
	waitForAnswer(t, service)
	p := servingPod(t, service)
	waitUntilPodIsGone(t, namespace, p.Name)
	for _, kubeconfig := range []string{"", withToken(t, token)} {
		kubectl.reads(t, kubeconfig, "stopped in order", "-n", namespace, "ksvc/"+service.Name)
		kubectl.reads(t, kubeconfig, "stopped in order", "-n", namespace, "revision/"+p.Labels["serving.knative.dev/revision"])
	}
}

func refusesWhoMayNot(t *testing.T, kubectl plugin) {
	namespace, token := logsNamespace(t, "stream")
	createPod(t, namespace, askingPod("prints", busybox(t, "main", "echo", "one")))
	waitUntilDone(t, namespace, "prints")
	viewer, stranger := withToken(t, token), withToken(t, reader(t, namespace, "may-not", false))
	kubectl.reads(t, viewer, "one", "-n", namespace, "prints")
	for _, what := range []string{"pod/prints", "taskrun/prints"} {
		for _, follow := range []string{"--follow=false", "--follow"} {
			out, err := kubectl.command(t.Context(), stranger, "-n", namespace, what, follow).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), "forbidden: you need the right to get pods/log")
		}
	}
	out, err := kubectl.command(t.Context(), viewer, "-n", "default", "prints").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "forbidden")
}

// No header makes another client the API server, not even with a certificate that the API
// server takes from its clients: the handshake fails, and pods' port has no such path.
func refusesForgedHeaders(t *testing.T, _ plugin) {
	service := logService(t)
	namespace, token := logsNamespace(t, "stream")
	files := rest.CopyConfig(cluster.Config)
	require.NoError(t, rest.LoadTLSFiles(files))
	admin, err := tls.X509KeyPair(files.CertData, files.KeyData)
	require.NoError(t, err)
	path := "/apis/" + endpoint.Group + "/" + endpoint.Version + "/namespaces/" + namespace + "/logs?pod=prints"
	for _, certificates := range [][]tls.Certificate{nil, {admin}} {
		ask := func(client *http.Client) (status int, err error) {
			transport := client.Transport.(*http.Transport).Clone()
			transport.TLSClientConfig.Certificates = certificates
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, service.address+path, nil)
			require.NoError(t, err)
			request.Header = http.Header{"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}, "Authorization": {"Bearer " + token}}
			response, err := (&http.Client{Transport: transport}).Do(request)
			if err != nil {
				return 0, err
			}
			return response.StatusCode, response.Body.Close()
		}
		proxied, err := cluster.LogClient(t.Context(), framework.ProxiedLogPort) // kubectl forwards no longer after a broken connection
		require.NoError(t, err)
		_, err = ask(proxied)
		require.ErrorContains(t, err, "remote error: tls")
		status, err := ask(service.client)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, status)
	}
}
