// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func withLogs() *pod.Injector {
	injector := newInjector(nil)
	injector.EntrypointImage = "registry.example.test/entrypoint@sha256:" + strings.Repeat("3", 64)
	injector.Logs = &pod.LogService{
		Address: "https://logs.example.test", CA: "sha256:" + strings.Repeat("a", 64), Audience: "logs",
		CopierImage:     "registry.example.test/withlogs/copier@sha256:" + strings.Repeat("4", 64),
		EntrypointImage: "registry.example.test/withlogs/entrypoint@sha256:" + strings.Repeat("5", 64),
	}
	return injector
}

// sending is a pod as API servers show it to webhooks: with a service account.
func sending(containers ...corev1.Container) *corev1.Pod {
	p := asking(containers...)
	p.Spec.ServiceAccountName = "default"
	return p
}

// withSecrets has a Secret in whatever way a container can have one.
func withSecrets() *corev1.Pod {
	p := sending(running("main", "serve"), running("quiet", "run"))
	fromSecret := func(name string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}}
	}
	fromFile := func(name string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "scratch", Path: "env", Key: "k"}}}
	}
	secret := func(items ...corev1.KeyToPath) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{Items: items}}
	}
	downward := corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}}
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
		{Name: "driver", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io"}}},
		{Name: "disk", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "disk.example.test"}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "api", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{token, downward}}}},
		{Name: "chosen", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{downward, secret(corev1.KeyToPath{Path: "a/b"})}}}},
		{Name: "whole", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{secret(), token}}}},
	}
	c := &p.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "PLAIN", Value: "x"}, fromSecret("PASSWORD"), fromSecret("$(ODD)"), fromFile("FETCHED")}
	from := func(name string) corev1.EnvFromSource {
		return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}, from("whole.env"), from("whole.env"), from("../not-a-name")}
	for _, v := range p.Spec.Volumes {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "secret", MountPath: "/etc/one.key", SubPath: "k"})
	return p
}

func TestAContainerThatSendsGetsATokenAndNamesOfItsSecrets(t *testing.T) {
	asking := annotated(withSecrets(), "logs.entrypointer.dev/main", "stream")
	asking.Labels = map[string]string{"tekton.dev/pipelineTask": "build", "tekton.dev/pipelineRun": "release", "tekton.dev/memberOf": "tasks", "tekton.dev/taskRun": ""}
	result := inject(t, withLogs(), asking)
	require.Empty(t, result.Warnings)
	requireGolden(t, "logs", result.Pod)

	again := inject(t, withLogs(), result.Pod)
	require.Equal(t, pod.AlreadyInjected, again.Outcome)
	require.Equal(t, result.Pod, again.Pod)
}

func TestAPodThatDoesNotAskForLogsIsAsIfThereWereNoService(t *testing.T) {
	for _, value := range []string{"", "off"} {
		p := withSecrets()
		if value != "" {
			annotated(p, "entrypointer.dev/logs", value)
		}
		require.Equal(t, inject(t, newInjector(nil), p).Pod, inject(t, withLogs(), p).Pod)
	}
}

func TestLogsThatCannotBeSentKeepNoPodFromRunning(t *testing.T) {
	terminal := running("main", "serve")
	terminal.TTY = true
	for name, test := range map[string]struct {
		injector *pod.Injector
		pod      *corev1.Pod
		says     string
	}{
		"there is no service":       {newInjector(nil), sending(running("main", "serve")), `the output of container "main" isn't sent to the log service: no log service is installed`},
		"it has a terminal":         {withLogs(), sending(terminal), `the output of container "main" isn't sent to the log service: it has a terminal`},
		"it has no service account": {withLogs(), asking(running("main", "serve")), `its pod has no service account`},
	} {
		t.Run(name, func(t *testing.T) {
			plain := inject(t, newInjector(nil), test.pod.DeepCopy()).Pod.Spec
			result := inject(t, test.injector, annotated(test.pod, "entrypointer.dev/logs", "tee"))
			require.Equal(t, plain, result.Pod.Spec)
			require.Len(t, result.Warnings, 1)
			require.Equal(t, pod.ReasonLogsNotSent, result.Warnings[0].Reason)
			require.Contains(t, result.Warnings[0].Message, test.says)
		})
	}
}

func TestTheOperatorMayRefusePodsWhoseLogsCannotBeSent(t *testing.T) {
	terminal := running("main", "serve")
	terminal.TTY = true
	withService, without := withLogs(), newInjector(nil)
	withService.Policy.RefuseUnsentLogs, without.Policy.RefuseUnsentLogs = true, true
	for name, test := range map[string]struct {
		injector *pod.Injector
		pod      *corev1.Pod
		logs     string
		says     string // "" admits it
	}{
		"there is no service":  {without, sending(running("main", "serve")), "stream", "no log service is installed: the operator installs it"},
		"it has a terminal":    {withService, sending(terminal), "tee", "it has a terminal (tty: true)"},
		"it is sent":           {withService, sending(running("main", "serve")), "stream", ""},
		"it may stay unsent":   {without, sending(running("main", "serve")), "off", ""},
		"the option isn't set": {without, sending(running("main", "serve")), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.logs != "" {
				annotated(test.pod, "entrypointer.dev/logs", test.logs)
			}
			result, err := test.injector.Inject(t.Context(), "tenant", test.pod)
			if test.says == "" {
				require.NoError(t, err)
				require.Empty(t, result.Warnings)
				return
			}
			var refusal *pod.Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, pod.LogsNotSent, refusal.Outcome)
			require.ErrorContains(t, err, `sending the output of container "main" to the log service: `+test.says)
			require.ErrorContains(t, err, "set annotation entrypointer.dev/logs: off")

			// The same of one that was wrapped when that was no reason.
			relaxed := *test.injector
			relaxed.Policy.RefuseUnsentLogs = false
			_, err = test.injector.Inject(t.Context(), "tenant", inject(t, &relaxed, test.pod).Pod)
			require.ErrorAs(t, err, &refusal)
		})
	}
}

func TestLogsOfANamespaceAreForAllThatSayNothing(t *testing.T) {
	injector := withLogs()
	injector.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/logs": "tee"})}
	p := annotated(sending(running("a", "x"), running("b", "y"), running("c", "z")), "logs.entrypointer.dev/b", "off", "mode.entrypointer.dev/c", "exec")
	result := inject(t, injector, p)
	has := func(at int, flag string) bool { return slices.Contains(result.Pod.Spec.Containers[at].Args, flag) }
	require.True(t, has(0, "-logs=tee"))
	require.Equal(t, []string{"--", "y"}, result.Pod.Spec.Containers[1].Args)
	require.Equal(t, []string{"-mode=exec", "--", "z"}, result.Pod.Spec.Containers[2].Args, "its author's mode leaves nobody to send")
}

func TestFilesToMaskAreToldToContainersThatSendAlone(t *testing.T) {
	injector := withLogs()
	injector.Logs.IP = "10.96.3.4"
	injector.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/mask-files": "/etc/of-all"})}
	terminal := running("d", "x")
	terminal.TTY = true
	p := annotated(sending(running("a", "x"), running("b", "y"), running("c", "z"), terminal), "entrypointer.dev/logs", "stream",
		"mask-files.entrypointer.dev/b", "/workspace/token, /run/$(HOME)", "logs.entrypointer.dev/c", "off", "mask-files.entrypointer.dev/c", "/workspace/token")
	result := inject(t, injector, p)
	masked := func(at int) (paths []string) {
		for _, arg := range result.Pod.Spec.Containers[at].Args {
			if path, is := strings.CutPrefix(arg, "-mask-files="); is {
				paths = append(paths, path)
			}
		}
		return paths
	}
	require.Equal(t, []string{"/entrypointer/token/token", "/etc/of-all"}, masked(0))
	require.Equal(t, []string{"/entrypointer/token/token", "/workspace/token", "/run/$$(HOME)"}, masked(1))
	require.Contains(t, result.Pod.Spec.Containers[0].Args, "-logs-ip=10.96.3.4")
	require.Equal(t, []string{"--", "z"}, result.Pod.Spec.Containers[2].Args)
	require.Equal(t, []string{"--", "x"}, result.Pod.Spec.Containers[3].Args)
	_, err := injector.Inject(t.Context(), "tenant", annotated(sending(running("a", "x")), "entrypointer.dev/mask-files", "token"))
	require.ErrorContains(t, err, `annotation entrypointer.dev/mask-files: "token" is wrong`)
}

func TestLogsWithoutAParentToSendThemAreRefused(t *testing.T) {
	p := annotated(sending(running("a", "x")), "entrypointer.dev/logs", "stream", "entrypointer.dev/mode", "exec")
	_, err := withLogs().Inject(t.Context(), "tenant", p)
	require.ErrorContains(t, err, "annotation entrypointer.dev/logs: it contradicts annotation entrypointer.dev/mode: exec")
	_, err = withLogs().Inject(t.Context(), "tenant", annotated(sending(running("a", "x")), "entrypointer.dev/logs", "on"))
	require.ErrorContains(t, err, `"on" is wrong; it can be "off", "stream" or "tee"`)
}

func TestAMountInThePlaceOfTheTokenIsRefused(t *testing.T) {
	mounting := func(at string) *corev1.Pod {
		p := sending(running("main", "serve"))
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: at}}
		return p
	}
	other := sending(running("main", "serve"))
	other.Spec.Volumes = []corev1.Volume{{Name: pod.TokenVolumeName, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	device, message := sending(running("main", "serve")), sending(running("main", "serve"))
	device.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "d", DevicePath: "/entrypointer/token"}}
	message.Spec.Containers[0].TerminationMessagePath = "/entrypointer/token/message"
	for _, p := range []*corev1.Pod{mounting("/entrypointer/token"), mounting("/entrypointer/token/token"), mounting("entrypointer/x/../token"), other, device, message} {
		_, err := withLogs().Inject(t.Context(), "tenant", annotated(p, "entrypointer.dev/logs", "stream"))
		require.ErrorContains(t, err, pod.TokenVolumeName)
	}
	secret := mounting("/entrypointer/secrets")
	secret.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	_, err := withLogs().Inject(t.Context(), "tenant", annotated(secret, "entrypointer.dev/logs", "stream"))
	require.ErrorContains(t, err, `where volume "entrypointer-secret-`)
}

func TestAForgedTokenVolumeIsReplaced(t *testing.T) {
	p := annotated(sending(running("main", "serve")), "entrypointer.dev/logs", "stream")
	want := inject(t, withLogs(), p).Pod
	forged := p.DeepCopy()
	forged.Spec.Volumes = []corev1.Volume{{Name: pod.TokenVolumeName, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
	result := inject(t, withLogs(), forged).Pod
	require.ElementsMatch(t, want.Spec.Volumes, result.Spec.Volumes)
	requireSamePod(t, result, patched(t, forged, result), "the patch leads elsewhere")
}

func TestTheEndOfAContainerWaitsLongerForAServiceThatHasTheOnlyCopy(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for _, test := range []struct {
		logs, option string
		policy       corev1.RestartPolicy
		grace        *int64
		flush, stop  string
	}{
		{"stream", "", corev1.RestartPolicyNever, nil, "1m15s", "30s"},
		{"stream", "", corev1.RestartPolicyOnFailure, nil, "1m15s", "30s"},
		{"stream", "", corev1.RestartPolicyAlways, nil, "10s", "30s"}, // its next start waits
		{"stream", "", "", nil, "10s", "30s"},
		{"tee", "", corev1.RestartPolicyNever, nil, "10s", "30s"},
		{"stream", "5m", corev1.RestartPolicyAlways, nil, "5m", "30s"},
		{"tee", "500ms", corev1.RestartPolicyNever, seconds(3600), "500ms", "1h0m0s"},
		{"stream", "", corev1.RestartPolicyNever, seconds(0), "1m15s", "0s"},
		{"stream", "", corev1.RestartPolicyNever, seconds(-5), "1m15s", "0s"},
	} {
		p := annotated(sending(running("main", "serve")), "entrypointer.dev/logs", test.logs)
		if test.option != "" {
			annotated(p, "entrypointer.dev/logs-flush-timeout", test.option)
		}
		p.Spec.RestartPolicy, p.Spec.TerminationGracePeriodSeconds = test.policy, test.grace
		wrapped := inject(t, withLogs(), p).Pod
		require.Equal(t, test.flush, flagOf(wrapped, "-logs-flush="))
		require.Equal(t, test.stop, flagOf(wrapped, "-logs-grace="), "a stop shortens the wait")
	}
	_, err := withLogs().Inject(t.Context(), "tenant", annotated(sending(running("main", "serve")), "entrypointer.dev/logs", "stream", "entrypointer.dev/logs-flush-timeout", "75"))
	require.ErrorContains(t, err, `"75" is wrong; it can be a duration above zero`)
}

func TestAnImageVolumeHasTheProgramThatSends(t *testing.T) {
	injector := withLogs()
	injector.Policy.Delivery = pod.DeliveryImageVolume
	p := sending(running("main", "serve"))
	image := func() string { return inject(t, injector, p).Pod.Spec.Volumes[0].Image.Reference }
	require.Equal(t, injector.EntrypointImage, image())
	annotated(p, "entrypointer.dev/logs", "stream")
	require.Equal(t, injector.Logs.EntrypointImage, image())
}

func TestLabelsOfTektonAndKnativeGoAlongWithTheLogs(t *testing.T) {
	for label, known := range map[string]bool{
		"tekton.dev/taskRun": true, "tekton.dev/pipelineRun": true, "tekton.dev/pipelineTask": true,
		"serving.knative.dev/service": true, "serving.knative.dev/revision": true, "app": false,
	} {
		p := annotated(asking(running("main", "serve")), "entrypointer.dev/logs", "stream")
		p.Labels = map[string]string{label: "x"}
		p.Spec.ServiceAccountName = "default"
		args := inject(t, withLogs(), p).Pod.Spec.Containers[0].Args
		require.Equal(t, known, slices.Contains(args, "-logs-label="+label+"=x"), label)
	}
}

// The pod is the last that tells who had it created.
func TestTheControllerGoesAlongWithTheLogs(t *testing.T) {
	long := strings.Repeat("x", 60)
	for name, test := range map[string]struct {
		controller, hash string // APIVERSION KIND NAME
		want             []string
	}{
		"a Deployment":                     {"apps/v1 ReplicaSet web-7d4b9c6d8", "7d4b9c6d8", []string{"deployment=web", "replicaset=web-7d4b9c6d8"}},
		"a Deployment with hyphens":        {"apps/v1 ReplicaSet web-db-7d4b9c6d8", "7d4b9c6d8", []string{"deployment=web-db", "replicaset=web-db-7d4b9c6d8"}},
		"a Deployment with a long name":    {"apps/v1 ReplicaSet " + long + "-7d4b9c6d8", "7d4b9c6d8", []string{"deployment=" + long}},
		"a ReplicaSet of its own":          {"apps/v1 ReplicaSet web-db", "", []string{"replicaset=web-db"}},
		"a ReplicaSet with a foreign hash": {"apps/v1 ReplicaSet web-db", "7d4b9c6d8", []string{"replicaset=web-db"}},
		"a ReplicaSet that is all hash":    {"apps/v1 ReplicaSet -db", "db", nil},
		"a StatefulSet":                    {"apps/v1 StatefulSet db", "", []string{"statefulset=db"}},
		"a DaemonSet":                      {"apps/v1 DaemonSet agent", "", []string{"daemonset=agent"}},
		"a Job":                            {"batch/v1 Job report", "", []string{"job=report"}},
		"a CronJob":                        {"batch/v1 Job nightly-report-29929875", "", []string{"job=nightly-report-29929875", "cronjob=nightly-report"}},
		"a Job with a date":                {"batch/v1 Job report-20261126", "", []string{"job=report-20261126"}},
		"a Job with a number":              {"batch/v1 Job report-1", "", []string{"job=report-1"}},
		"a Job with the time in seconds":   {"batch/v1 Job report-1795000000", "", []string{"job=report-1795000000"}},
		"a Job of another API":             {"batch.volcano.sh/v1alpha1 Job report", "", nil},
		"a ReplicaSet of another API":      {"example.com/v1 ReplicaSet web", "", nil},
		"a custom resource":                {"example.com/v1 Database db", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := annotated(sending(running("main", "serve")), "entrypointer.dev/logs", "stream")
			if test.hash != "" {
				p.Labels = map[string]string{"pod-template-hash": test.hash}
			}
			said := strings.Fields(test.controller)
			p.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "owns-and-controls-nothing"},
				{APIVersion: said[0], Kind: said[1], Name: said[2], Controller: new(true)},
			}
			var got []string
			for _, arg := range inject(t, withLogs(), p).Pod.Spec.Containers[0].Args {
				if label, is := strings.CutPrefix(arg, "-logs-label=entrypointer.dev/"); is {
					got = append(got, label)
				}
			}
			require.Equal(t, test.want, got)
			annotated(p, "entrypointer.dev/logs", "off")
			require.NotContains(t, strings.Join(inject(t, withLogs(), p).Pod.Spec.Containers[0].Args, " "), "-logs")
		})
	}
}

func TestTheTraceOfATaskRunGoesAlongWithTheLogs(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for context, want := range map[string]bool{
		`{"traceparent":"` + parent + `","tracestate":""}`: true,
		`{"traceparent":"` + parent + `; rm"}`:             false,
		`{"traceparent":7}`:                                false,
		parent:                                             false,
		`{}`:                                               false,
	} {
		p := annotated(sending(running("main", "serve")), "entrypointer.dev/logs", "stream")
		p.Annotations["tekton.dev/taskrunSpanContext"] = context
		args := inject(t, withLogs(), p).Pod.Spec.Containers[0].Args
		require.Equal(t, want, slices.Contains(args, "-logs-label=entrypointer.dev/traceparent="+parent), context)
		require.Equal(t, want, strings.Contains(strings.Join(args, " "), "traceparent"), context)
	}
}

func TestACommandWaitsForTheLogServiceByTheKindOfItsPod(t *testing.T) {
	never := corev1.ContainerRestartPolicyNever
	for name, test := range map[string]struct {
		logs, whenFull string
		policy         corev1.RestartPolicy
		ofContainer    *corev1.ContainerRestartPolicy
		want           string // "" for no flag
	}{
		"a server":                        {"stream", "", corev1.RestartPolicyAlways, nil, "block:2s"},
		"a Job that is tried again":       {"stream", "", corev1.RestartPolicyOnFailure, nil, "block:1m15s"},
		"a Job":                           {"stream", "", corev1.RestartPolicyNever, nil, "block:1m15s"},
		"one container that isn't served": {"stream", "", corev1.RestartPolicyAlways, &never, "block:1m15s"},
		"the cluster's log has it all":    {"tee", "", corev1.RestartPolicyNever, nil, ""},
		"a server of which all is kept":   {"tee", "block", corev1.RestartPolicyAlways, nil, "block:2s"},
		"a Job that must not wait":        {"stream", "drop", corev1.RestartPolicyNever, nil, "drop"},
		"a time of its own":               {"stream", "block:1h", corev1.RestartPolicyAlways, nil, "block:1h"},
		"it isn't sent":                   {"off", "block", corev1.RestartPolicyNever, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := annotated(sending(running("main", "serve")), "entrypointer.dev/logs", test.logs)
			if test.whenFull != "" {
				annotated(p, "entrypointer.dev/logs-when-full", test.whenFull)
			}
			p.Spec.RestartPolicy, p.Spec.Containers[0].RestartPolicy = test.policy, test.ofContainer
			require.Equal(t, test.want, flagOf(inject(t, withLogs(), p).Pod, "-logs-when-full="))
		})
	}
}

// flagOf returns the value of the only flag of this name, "" if there is none.
func flagOf(p *corev1.Pod, name string) (value string) {
	for _, arg := range p.Spec.Containers[0].Args {
		if rest, is := strings.CutPrefix(arg, name); is {
			value += rest
		}
	}
	return value
}

func TestTheMemoryForUnsentOutputIsAQuantityWithinBounds(t *testing.T) {
	for value, want := range map[string]string{"256Ki": "262144", "64Mi": "67108864", "4Mi": "4194304", "1M": "1000000", "300000.5": "300001"} {
		p := annotated(sending(running("main", "serve")), "entrypointer.dev/logs", "tee", "entrypointer.dev/logs-buffer", value)
		require.Equal(t, want, flagOf(inject(t, withLogs(), p).Pod, "-logs-buffer="))
		require.Equal(t, []string{"--", "serve"}, inject(t, newInjector(nil), p).Pod.Spec.Containers[0].Args, "there is no service")
	}
	for option, values := range map[string][]string{
		"logs-buffer":    {"", "255Ki", "65Mi", "many", "-1Mi", "1e30"},
		"logs-when-full": {"", "wait", "block:", "block:0s", "block:-1s", "block:30", "drop:1s"},
	} {
		for _, value := range values {
			_, err := withLogs().Inject(t.Context(), "tenant", annotated(sending(running("main", "serve")), "entrypointer.dev/logs", "stream", "entrypointer.dev/"+option, value))
			require.ErrorContains(t, err, "annotation entrypointer.dev/"+option+": \""+value+"\" is wrong; it can be ")
		}
	}
}

func TestTheEndOfTheOutputBecomesTheMessageOfAFailureWhereTheKubeletFindsNoLog(t *testing.T) {
	for name, test := range map[string]struct {
		policy            corev1.TerminationMessagePolicy
		logs, path, asked string
		want              string
	}{
		"the kubelet would take the log": {corev1.TerminationMessageFallbackToLogsOnError, "stream", "/dev/termination-log", "", "/dev/termination-log"},
		"at another path":                {corev1.TerminationMessageFallbackToLogsOnError, "stream", "run/$(NAME)", "", "/run/$$(NAME)"},
		"the cluster's log has it":       {corev1.TerminationMessageFallbackToLogsOnError, "tee", "/dev/termination-log", "", ""},
		"the status is the message":      {corev1.TerminationMessageFallbackToLogsOnError, "stream", "/dev/termination-log", "true", ""},
		"the status isn't":               {corev1.TerminationMessageFallbackToLogsOnError, "stream", "/dev/termination-log", "false", "/dev/termination-log"},
		"only the command's own":         {corev1.TerminationMessageReadFile, "stream", "/dev/termination-log", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := annotated(sending(running("main", "serve")), "entrypointer.dev/logs", test.logs)
			if test.asked != "" {
				annotated(p, "entrypointer.dev/termination-message", test.asked)
			}
			p.Spec.Containers[0].TerminationMessagePolicy, p.Spec.Containers[0].TerminationMessagePath = test.policy, test.path
			require.Equal(t, test.want, flagOf(inject(t, withLogs(), p).Pod, "-logs-message="))
		})
	}
}

// Knative shows the message of a container that fails in the status of the Revision.
func TestARevisionShowsTheEndOfTheOutputOfAContainerThatFails(t *testing.T) {
	const digest = "registry.example.test/hello@sha256:3333333333333333333333333333333333333333333333333333333333333333"
	p := knativePod(t, corev1.PodSpec{Containers: []corev1.Container{{Name: "user-container", Image: digest, Command: []string{"/hello"}}}})
	p.Spec.ServiceAccountName = "default"
	require.Equal(t, "/dev/termination-log", flagOf(inject(t, withLogs(), annotated(p, "entrypointer.dev/logs", "stream")).Pod, "-logs-message="))
}
