// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Whatever a pod looks like: only what is ours changes, once is enough, and
// the patch says the same as the types.
func FuzzInject(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		injector := fuzzedInjector(data)
		once, err := requireSound(t, injector, encode(t, filledPod(data)))
		if err != nil {
			return
		}
		// Another webhook comes after us, and we are asked again.
		meddled := once.DeepCopy()
		meddled.Spec.InitContainers = slices.Insert(meddled.Spec.InitContainers, 0, running("theirs", "x"))
		meddled.Spec.Containers = append(meddled.Spec.Containers, running("late", "x"), running("step-late", "x"))
		_, _ = requireSound(t, injector, encode(t, meddled))
	})
}

// The same of a pod from an API server that knows more than we do, at every level.
func FuzzInjectUnknownFields(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var document any
		require.NoError(t, json.Unmarshal(encode(t, filledPod(data)), &document))
		_, _ = requireSound(t, fuzzedInjector(data), encode(t, fromLater(document)))
	})
}

// What the fuzz targets say is worth something only if their pods are decided
// on in every way.
func TestFilledPodsMeetEveryDecision(t *testing.T) {
	const pods = 4800
	met, tools, orders, shared := map[pod.Outcome]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for seed := range uint64(pods) {
		before := filledPod(binary.BigEndian.AppendUint64(nil, seed))
		result, err := fuzzedInjector([]byte{byte(seed)}).Inject(t.Context(), "tenant", before)
		if refusal, ok := errors.AsType[*pod.Refusal](err); ok {
			met[refusal.Outcome]++
			continue
		}
		require.NoError(t, err)
		met[result.Outcome]++
		tools[volumesDecision(before, result.Pod, pod.ToolsVolumeName)]++
		orders[volumesDecision(before, result.Pod, pod.OrderVolumePrefix)]++
		shared[volumesDecision(before, result.Pod, pod.SharedVolumePrefix)]++
	}
	t.Logf("%v, tools %v, orders %v, shared directories %v", met, tools, orders, shared)
	for _, decision := range []string{"added", "changed", "removed"} {
		require.Greater(t, tools[decision], 5, "tools that are %s, of %v", decision, tools)
		require.Greater(t, orders[decision], 5, "orders that are %s, of %v", decision, orders)
		require.Greater(t, shared[decision], 5, "shared directories that are %s, of %v", decision, shared)
	}
	for _, outcome := range []pod.Outcome{
		pod.Injected, pod.PartlyInjected, pod.NotOurs, pod.NothingToWrap, pod.OptedOut, pod.Windows, pod.LookupWaived,
		pod.InvalidAnnotation, pod.NameCollision, pod.NoCommand, pod.LookupFailed,
	} {
		require.Positive(t, met[outcome], "%s, of %v", outcome, met)
	}
	require.Greater(t, met[pod.Injected], pods/6, "%v", met)
}

// volumesDecision is what became of the volumes whose names begin like this.
func volumesDecision(before, after *corev1.Pod, prefix string) string {
	find := func(p *corev1.Pod) []corev1.Volume {
		return slices.DeleteFunc(slices.Clone(p.Spec.Volumes), func(v corev1.Volume) bool { return !strings.HasPrefix(v.Name, prefix) })
	}
	switch was, is := find(before), find(after); {
	case len(was) == 0 && len(is) == 0:
		return "none"
	case len(was) < len(is):
		return "added"
	case len(was) > len(is):
		return "removed"
	case equality.Semantic.DeepEqual(was, is):
		return "left"
	}
	return "changed"
}

func addSeeds(f *testing.F) {
	f.Helper()
	for seed := range uint64(32) {
		f.Add(binary.BigEndian.AppendUint64(nil, seed))
	}
}

// fuzzedInjector has one of the policies that an operator may set.
func fuzzedInjector(data []byte) *pod.Injector {
	injector := newInjector(fuzzedImages)
	if len(data) > 0 {
		last := data[len(data)-1]
		injector.EntrypointImage = copierImage
		injector.Policy = pod.Policy{ForbidOptOut: last&1 != 0, WaiveFailedLookups: last&2 != 0}
		injector.Policy.Delivery = []pod.Delivery{pod.DeliveryInitContainer, pod.DeliveryImageVolume, pod.DeliveryAuto, pod.DeliveryClaim}[last>>2&3]
		injector.ClaimName = claimName
		if last&16 != 0 {
			injector.Tools = []pod.Tool{ni, yq, other}
		}
		if last&32 != 0 {
			injector.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/tools": "ni, other", "entrypointer.dev/tools-in-path": "true", "entrypointer.dev/end-sidecars": "istio, http://:1/"})}
		}
	}
	return injector
}

// requireSound treats a pod as an API server and our webhook do, as JSON, and
// returns it as it is admitted, or the refusal.
func requireSound(t *testing.T, injector *pod.Injector, sent []byte) (*corev1.Pod, error) {
	t.Helper()
	before := decode[corev1.Pod](t, sent)
	given := before.DeepCopy()
	result, err := injector.Inject(t.Context(), "tenant", before)
	require.Equal(t, given, before, "the pod that was given is left as it was")
	if err != nil {
		var refusal *pod.Refusal
		require.ErrorAs(t, err, &refusal, "whoever made the pod must learn what is wrong with it")
		return nil, err
	}

	operations, err := jsonpatch.DecodePatch(encode(t, pod.Patch(before, result.Pod)))
	require.NoError(t, err)
	patched, err := operations.Apply(sent)
	require.NoError(t, err)
	admitted := decode[corev1.Pod](t, patched)
	requireSamePod(t, result.Pod, admitted, "the patch leads elsewhere")
	requireOnlyOurs(t, sent, patched, result.Wrapped)
	requireWrapped(t, before, admitted, result.Wrapped)

	again, err := injector.Inject(t.Context(), "tenant", admitted)
	require.NoError(t, err, "what was admitted once is admitted again")
	require.Empty(t, again.Wrapped)
	requireSamePod(t, admitted, again.Pod, "twice isn't once")
	require.Empty(t, pod.Patch(admitted, again.Pod))
	return admitted, nil
}

func requireSamePod(t *testing.T, want, got *corev1.Pod, message string) {
	t.Helper()
	if equality.Semantic.DeepEqual(want, got) {
		return
	}
	wanted, err := json.MarshalIndent(want, "", " ")
	require.NoError(t, err)
	gotten, err := json.MarshalIndent(got, "", " ")
	require.NoError(t, err)
	require.Equal(t, string(wanted), string(gotten), message)
}

// requireWrapped says of each container either that it is wrapped, its own
// argv behind the dashes, or that it is as it was.
func requireWrapped(t *testing.T, before, after *corev1.Pod, wrapped []string) {
	t.Helper()
	for i, was := range before.Spec.Containers {
		is := after.Spec.Containers[i]
		if !slices.Contains(wrapped, was.Name) {
			if !slices.Equal(was.Args, is.Args) { // it came wrapped, with other flags
				require.Equal(t, []string{pod.EntrypointPath}, was.Command)
				require.Equal(t, behindDashes(t, was.Args), behindDashes(t, is.Args))
				is.Args = was.Args
			}
			was, is = *was.DeepCopy(), *is.DeepCopy()
			forget := func(m corev1.VolumeMount) bool { // with the tools, with the order, and with what is shared
				return m.Name == pod.ToolsVolumeName || isBetweenContainers(m.Name)
			}
			if asksWhetherStarted(was) || asksWhetherStarted(is) {
				was.StartupProbe, is.StartupProbe = nil, nil
			}
			was.VolumeMounts, is.VolumeMounts = slices.DeleteFunc(was.VolumeMounts, forget), slices.DeleteFunc(is.VolumeMounts, forget)
			for m := range was.VolumeMounts {
				if was.VolumeMounts[m].Name == pod.VolumeName { // it may lead elsewhere in the other delivery
					is.VolumeMounts[m].SubPath, is.VolumeMounts[m].SubPathExpr = was.VolumeMounts[m].SubPath, was.VolumeMounts[m].SubPathExpr
				}
			}
			require.True(t, equality.Semantic.DeepEqual(was, is), "%s isn't to be wrapped", was.Name)
			continue
		}
		require.Equal(t, []string{pod.EntrypointPath}, is.Command)
		argv := behindDashes(t, is.Args)
		if len(was.Command) > 0 {
			require.Equal(t, slices.Concat(was.Command, was.Args), argv)
			require.Equal(t, was.Image, is.Image)
			continue
		}
		require.GreaterOrEqual(t, len(argv), len(was.Args))
		require.True(t, slices.Equal(was.Args, argv[len(argv)-len(was.Args):]), "the author's own tokens are never touched: %q", argv)
	}
}

// asksWhetherStarted reports whether a container has the startupProbe of one that waits.
func asksWhetherStarted(c corev1.Container) bool {
	return c.StartupProbe != nil && c.StartupProbe.Exec != nil && slices.Equal(c.StartupProbe.Exec.Command, []string{pod.EntrypointPath, "started"})
}

// behindDashes is the original argv of a wrapped container. Flags have their
// values within, so the first "--" ends them.
func behindDashes(t *testing.T, args []string) []string {
	t.Helper()
	dashes := slices.Index(args, "--")
	require.GreaterOrEqual(t, dashes, 0)
	return args[dashes+1:]
}

// safeToEvict tells the cluster autoscaler which volumes may be lost.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

// requireOnlyOurs undoes in the patched document what may be ours. What is
// left must be the document that was sent.
func requireOnlyOurs(t *testing.T, sentJSON, patchedJSON []byte, wrapped []string) {
	t.Helper()
	sent, patched := *decode[object](t, sentJSON), *decode[object](t, patchedJSON)

	metadata := patched.object("metadata")
	for _, key := range []string{pod.StatusAnnotation, safeToEvict} {
		undoKey(metadata.object("annotations"), sent.object("metadata").object("annotations"), key)
	}
	if len(metadata.object("annotations")) == 0 {
		undoKey(metadata, sent.object("metadata"), "annotations")
	}

	was, is := sent.object("spec"), patched.object("spec")
	for _, document := range []object{was, is} {
		document.forget("volumes", pod.VolumeName, pod.ToolsVolumeName)
		document.forget("initContainers", append(toolContainersOfAnyone, pod.InitContainerName, "entrypointer-tool-other")...)
		for _, c := range slices.Concat(document.list("initContainers"), document.list("containers")) {
			object(c.(map[string]any)).forget("volumeMounts", pod.VolumeName, pod.ToolsVolumeName)
		}
	}
	for i, c := range is.list("containers") {
		container, original := object(c.(map[string]any)), object(was.list("containers")[i].(map[string]any))
		if !slices.Contains(wrapped, named(c)) && !slices.Equal(original.list("command"), []any{pod.EntrypointPath}) {
			continue
		}
		for _, key := range []string{"command", "args", "image"} {
			undoKey(container, original, key)
		}
		if asksWhetherStarted(*decode[corev1.Container](t, encode(t, container))) || asksWhetherStarted(*decode[corev1.Container](t, encode(t, original))) {
			undoKey(container, original, "startupProbe")
		}
	}
	require.Equal(t, sent, patched)
}

// object is a JSON object.
type object map[string]any

func (o object) object(key string) object { found, _ := o[key].(map[string]any); return found }
func (o object) list(key string) []any    { found, _ := o[key].([]any); return found }

// isBetweenContainers reports whether a volume is of the order, or shared.
func isBetweenContainers(volume string) bool {
	return strings.HasPrefix(volume, pod.OrderVolumePrefix) || strings.HasPrefix(volume, pod.SharedVolumePrefix)
}

// forget removes the elements of these names from a list, those of the order and what
// is shared too, and the list with its last.
func (o object) forget(key string, names ...string) {
	list := slices.DeleteFunc(slices.Clone(o.list(key)), func(element any) bool {
		return slices.Contains(names, named(element)) || isBetweenContainers(named(element))
	})
	if o[key] = list; len(list) == 0 {
		delete(o, key)
	}
}

func undoKey(in, like object, key string) {
	if was, ok := like[key]; ok {
		in[key] = was
	} else {
		delete(in, key)
	}
}

func named(element any) string { name, _ := element.(map[string]any)["name"].(string); return name }

func encode(t *testing.T, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	require.NoError(t, err)
	return encoded
}

func decode[T any](t *testing.T, document []byte) *T {
	t.Helper()
	var value T
	require.NoError(t, json.Unmarshal(document, &value))
	return &value
}

// fromLater adds an unknown field to every object of a document. In a map of strings or
// of quantities, the field is an ordinary entry.
func fromLater(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = fromLater(value[key])
		}
		value["fromLater"] = "1"
	case []any:
		for i := range value {
			value[i] = fromLater(value[i])
		}
	}
	return value
}

// What fuzzed pods are made of: words that mean something to us, or to the
// kubelet, among words that don't.
var (
	fuzzedImages = images{
		"busybox": image(nil, []string{"sh"}),
		"app":     image([]string{"/app", "$(NAME)", "$$"}, []string{"--serve"}),
		"scratch": image(nil, nil),
		"stopped": stoppedBy("SIGQUIT"),
		"differs": lookup.Image{Configs: []lookup.Config{
			{Platform: "linux/amd64", Entrypoint: []string{"/amd64", "--"}},
			{Platform: "linux/arm64/v8", Entrypoint: []string{"/arm64", "$HOME"}, Cmd: []string{"x"}},
		}},
	}
	fuzzedWords = []string{
		"", "a", "app", "true", "false", "--", "-arg=x", "-mode=exec", "$(NAME)", "$$(NAME)", "$", "ü\n🚀",
		pod.EntrypointPath, pod.VolumeName, pod.InitContainerName, pod.MountPath, pod.ToolsVolumeName, pod.ToolsMountPath, "TaskRun", "ReplicaSet", "windows",
	}
	fuzzedFlags = append([]string{"-stop-signal=SIGINT", "-stop-signal=x", "-stop-after=/entrypointer/order/app", "-stop-when=exited:/x"}, fuzzedWords...)
	fuzzedNames = []string{
		"step-a", "step-a", "step-b", "step-b", "sidecar-db", "user-container", "user-container", "queue-proxy", "istio-proxy",
		"app", "app", "app", "app", pod.InitContainerName,
	}
	toolContainersOfAnyone = []string{"entrypointer-tool-ni", "entrypointer-tool-yq", "entrypointer-tool-gone"}

	fuzzedPaths = []string{"/data", "/data", "/data", "/entrypointer-data", "/etc/", "//x/../y", pod.MountPath + "/", pod.ToolsMountPath + "/x", "/entrypointer"}
)

func pick[T any](c randfill.Continue, from []T) T { return from[c.Intn(len(from))] }

// oneIn is true once in n times.
func oneIn(c randfill.Continue, n int) bool { return c.Intn(n) == 0 }

// filledPod makes a pod of the bytes, with all fields that there are.
func filledPod(data []byte) *corev1.Pod {
	var filled corev1.Pod
	randfill.NewFromGoFuzz(data).NilChance(0.7).NumElements(0, 3).Funcs(
		func(s *string, c randfill.Continue) { *s = pick(c, fuzzedWords) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(pick(c, []string{"0", "100m", "1", "2", "64Mi", "1Gi"}))
		},
		func(l *corev1.ResourceList, c randfill.Continue) {
			*l = corev1.ResourceList{}
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "nvidia.com/gpu"} {
				if c.Bool() {
					var quantity resource.Quantity
					c.Fill(&quantity)
					(*l)[name] = quantity
				}
			}
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:spec":{}}`) },
		func(i *intstr.IntOrString, c randfill.Continue) { *i = intstr.FromInt32(c.Int31()) },
		fillMeta, fillSpec, fillContainer, fillMount, fillVolume,
	).Fill(&filled)
	orderSome(&filled, data)
	shareSome(&filled, data)
	return &filled
}

// shareSome has some of a pod's containers share directories, and leaves some that they
// don't share any more.
func shareSome(p *corev1.Pod, data []byte) {
	random := rand.New(rand.NewChaCha8(sha256.Sum256(append([]byte("shared"), data...))))
	if random.IntN(4) > 0 {
		return
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	for at := range p.Spec.Containers {
		c := &p.Spec.Containers[at]
		if what := random.IntN(4); what < 2 {
			p.Annotations["shared-directory.entrypointer.dev/"+c.Name] = []string{"a", "b, a", "a,gone", "b", "a", "b", "a", "a,a"}[random.IntN(8)]
			continue
		} else if what == 2 {
			continue
		}
		name := []string{"a", "b", "gone", "gone"}[random.IntN(4)]
		volume := corev1.Volume{Name: pod.SharedVolumePrefix + name}
		if volume.EmptyDir = (&corev1.EmptyDirVolumeSource{}); random.IntN(16) == 0 {
			volume.EmptyDir = nil
		}
		p.Spec.Volumes = append(p.Spec.Volumes, volume)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume.Name, MountPath: pod.SharedMountPath + "/" + name, ReadOnly: random.IntN(4) == 0})
	}
}

// orderSome has some of a pod's containers wait for others, and leaves something of
// another order.
func orderSome(p *corev1.Pod, data []byte) {
	random := rand.New(rand.NewChaCha8(sha256.Sum256(data)))
	if random.IntN(3) > 0 {
		return
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Spec.TerminationGracePeriodSeconds = []*int64{nil, new(int64(0)), new(int64(1)), new(int64(60))}[random.IntN(4)]
	p.Spec.RestartPolicy = []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}[random.IntN(3)]
	if random.IntN(3) == 0 && p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		p.Annotations["entrypointer.dev/end-sidecars"] = []string{"istio", "http://:1/x, vault", "none"}[random.IntN(3)]
	}
	for at := range p.Spec.Containers {
		c, other := &p.Spec.Containers[at], p.Spec.Containers[random.IntN(max(at, 1))].Name // itself, too
		if random.IntN(8) > 0 {                                                             // an author's startupProbe refuses the pod
			c.StartupProbe, c.Lifecycle = nil, nil
		}
		if at > 0 && random.IntN(8) == 0 { // which the pod's other annotations may contradict
			p.Annotations["stdin.entrypointer.dev/"+c.Name] = other
			c.Stdin, c.TTY = false, false
		}
		what := random.IntN(5)
		if at == 0 && random.IntN(8) > 0 {
			what = 2 + random.IntN(2) // it could wait for itself only
		}
		if random.IntN(6) == 0 {
			p.Annotations["wait-for.entrypointer.dev/"+c.Name] = "tcp://:1, file:///x"
		}
		switch what {
		case 0, 1:
			p.Annotations["depends-on.entrypointer.dev/"+c.Name] = other + []string{":started", ":ready", ":exited", ":completed", ":started?, nobody:ready?"}[random.IntN(5)]
			p.Annotations["ready-when.entrypointer.dev/"+other] = "tcp://:1"
		case 4:
			p.Annotations["stop-when.entrypointer.dev/"+c.Name] = other + []string{":exited", ":completed", ":exited?, nobody:completed?"}[random.IntN(3)]
		case 2:
			p.Annotations["depends-on-timeout.entrypointer.dev/"+c.Name] = "1m"
			name := []string{c.Name, other, "gone"}[random.IntN(3)]
			volume := corev1.Volume{Name: pod.OrderVolumePrefix + name}
			if volume.EmptyDir = (&corev1.EmptyDirVolumeSource{}); random.IntN(8) == 0 {
				volume.EmptyDir = nil
			}
			p.Spec.Volumes = append(p.Spec.Volumes, volume)
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume.Name, MountPath: pod.OrderMountPath + "/" + name, ReadOnly: random.IntN(2) == 0})
		}
	}
}

func fillMeta(m *metav1.ObjectMeta, c randfill.Continue) {
	c.FillNoCustom(m)
	annotate := func(key string, values ...string) {
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[key] = pick(c, values)
	}
	label := func(key string) {
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[key] = "x"
	}
	if !oneIn(c, 3) {
		annotate(pod.InjectAnnotation, "true", "true", "true", "true", "true", "true", "false", "maybe")
	}
	if oneIn(c, 8) {
		annotate(pod.ContainersAnnotation, "app", "app, step-a", "nobody")
	}
	if oneIn(c, 8) {
		annotate("entrypointer.dev/mode", "exec", "exec", "supervise", "wrong")
	}
	if oneIn(c, 4) {
		annotate("entrypointer.dev/tools", "ni", "ni", "yq, ni", "none", "nobodys")
	}
	if oneIn(c, 8) {
		annotate("tools.entrypointer.dev/app", "yq", "none")
	}
	if oneIn(c, 16) {
		annotate(safeToEvict, "data")
	}
	if oneIn(c, 8) {
		annotate(pod.StatusAnnotation, string(pod.Injected), "forged")
	}
	if oneIn(c, 4) {
		label("tekton.dev/taskRun")
	}
	if oneIn(c, 4) {
		label("serving.knative.dev/revision")
	}
}

func fillSpec(s *corev1.PodSpec, c randfill.Continue) {
	c.FillNoCustom(s)
	if len(s.Containers) == 0 {
		s.Containers = make([]corev1.Container, 1+c.Intn(3))
		for i := range s.Containers {
			c.Fill(&s.Containers[i])
		}
	}
	if oneIn(c, 24) {
		s.OS = &corev1.PodOS{Name: corev1.Windows}
	}
	taken := map[string]bool{}
	for i := range s.Containers {
		if taken[s.Containers[i].Name] {
			s.Containers[i].Name += strconv.Itoa(i)
		}
		taken[s.Containers[i].Name] = true
	}
	if len(s.InitContainers) > 0 && oneIn(c, 4) {
		s.InitContainers[0].Name = pod.InitContainerName
	}
	if last := len(s.InitContainers) - 1; last >= 0 && oneIn(c, 4) {
		s.InitContainers[last].Name = pick(c, toolContainersOfAnyone)
		if !oneIn(c, 4) {
			s.InitContainers[last].VolumeMounts = append(s.InitContainers[last].VolumeMounts, corev1.VolumeMount{Name: pod.ToolsVolumeName, MountPath: pod.ToolsMountPath})
		}
	}
}

func fillContainer(container *corev1.Container, c randfill.Continue) {
	c.FillNoCustom(container)
	container.Name = pick(c, fuzzedNames)
	container.Image = pick(c, []string{"busybox", "busybox", "app", "app", "differs", "differs", "scratch", "missing", "stopped"})
	if len(container.Command) == 0 && !oneIn(c, 3) {
		container.Command = []string{pick(c, fuzzedWords), pick(c, fuzzedWords)}
	}
	if oneIn(c, 12) {
		container.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{pod.EntrypointPath, "started"}}}, PeriodSeconds: 1}
	}
	if oneIn(c, 8) {
		container.Command = []string{pod.EntrypointPath}
		container.Args = []string{pick(c, fuzzedFlags), "--", pick(c, fuzzedWords)}
	}
}

func fillMount(m *corev1.VolumeMount, c randfill.Continue) {
	c.FillNoCustom(m)
	m.Name, m.MountPath = pick(c, fuzzedWords[:4]), pick(c, fuzzedPaths)
	if oneIn(c, 3) {
		*m = corev1.VolumeMount{Name: pod.VolumeName, MountPath: pod.MountPath, ReadOnly: !oneIn(c, 6)}
	}
	if oneIn(c, 6) {
		*m = corev1.VolumeMount{Name: pod.ToolsVolumeName, MountPath: pod.ToolsMountPath, ReadOnly: !oneIn(c, 6)}
	}
	if oneIn(c, 10) {
		name := pick(c, orderVolumesOfAnyone)
		*m = corev1.VolumeMount{Name: name, MountPath: pod.OrderMountPath + "/" + strings.TrimPrefix(name, pod.OrderVolumePrefix), ReadOnly: !oneIn(c, 3)}
		if oneIn(c, 4) {
			m.MountPath = pick(c, fuzzedPaths)
		}
	}
}

// orderVolumesOfAnyone are names of volumes by which containers are ordered.
var orderVolumesOfAnyone = []string{pod.OrderVolumePrefix + "app", pod.OrderVolumePrefix + "step-a", pod.OrderVolumePrefix + "gone"}

func fillVolume(v *corev1.Volume, c randfill.Continue) {
	c.FillNoCustom(v)
	v.Name = pick(c, fuzzedWords[:4])
	if oneIn(c, 4) {
		*v = corev1.Volume{Name: pick(c, []string{pod.VolumeName, pod.ToolsVolumeName})}
		switch {
		case oneIn(c, 3):
			v.Image = &corev1.ImageVolumeSource{Reference: pick(c, []string{"theirs", copierImage, ni.Image})}
		case oneIn(c, 4):
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pick(c, []string{"theirs", claimName}), ReadOnly: oneIn(c, 2)}
		default:
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
		if oneIn(c, 3) {
			v.Name = pick(c, orderVolumesOfAnyone)
		}
	}
}
