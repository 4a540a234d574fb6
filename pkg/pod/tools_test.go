// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

var (
	ni    = pod.Tool{Name: "ni", Image: "registry.example.test/ni@sha256:" + strings.Repeat("6", 64), Path: "/ko-app/ni"}
	yq    = pod.Tool{Name: "yq", Image: "registry.example.test/team/yq@sha256:" + strings.Repeat("7", 64), Path: "/usr/bin/yq"}
	other = pod.Tool{Name: "other", Image: ni.Image, Path: "/ko-app/other"}
)

// offering is an injector with these tools.
func offering(delivery pod.Delivery, tools ...pod.Tool) *pod.Injector {
	injector := mounting()
	injector.Policy.Delivery = delivery
	injector.Tools = tools
	return injector
}

func withTools(p *corev1.Pod, value string) *corev1.Pod {
	return annotated(p, "entrypointer.dev/tools", value)
}

func toolContainers(p *corev1.Pod) (names []string) {
	for _, c := range p.Spec.InitContainers {
		names = append(names, c.Name)
	}
	return names
}

func toolMounts(c corev1.Container) (paths []string) {
	for _, m := range c.VolumeMounts {
		if m.Name == pod.ToolsVolumeName {
			paths = append(paths, m.MountPath+":"+m.SubPath)
		}
	}
	return paths
}

func TestToolsAreCopiedByInitContainersOfTheirOwnImages(t *testing.T) {
	injector := offering(pod.DeliveryInitContainer, ni, yq)
	sent := annotated(asking(running("a", "x"), running("b", "y")), "tools.entrypointer.dev/a", "yq, ni", "entrypointer.dev/tools-in-path", "true")
	result := inject(t, injector, sent)
	requireGolden(t, "tools", result.Pod)
	require.Empty(t, result.Warnings)
	requireSamePod(t, result.Pod, patched(t, sent, result.Pod), "the patch leads elsewhere")

	again := inject(t, injector, result.Pod)
	require.Equal(t, pod.AlreadyInjected, again.Outcome)
	require.Equal(t, result.Pod, again.Pod)
}

func TestToolsComeByAnImageVolumeWhereOneDirectoryHasThem(t *testing.T) {
	shared := ni
	shared.Path = "/usr/bin/ni"
	renamed := ni
	renamed.Path = "/ko-app/ni-1.2"
	for name, test := range map[string]struct {
		tools   []pod.Tool
		asks    string
		mounted string // "" for copies
		copied  []string
	}{
		"one of a directory of its own":     {[]pod.Tool{ni}, "ni", "ko-app", nil},
		"two of one":                        {[]pod.Tool{ni, other}, "ni, other", "ko-app", nil},
		"two images":                        {[]pod.Tool{ni, yq}, "ni, yq", "", []string{"entrypointer-tool-ni", "entrypointer-tool-yq"}},
		"one of two images":                 {[]pod.Tool{ni, yq}, "ni", "ko-app", nil},
		"a directory of programs at large":  {[]pod.Tool{shared}, "ni", "", []string{"entrypointer-tool-ni"}},
		"another name than the image's own": {[]pod.Tool{renamed}, "ni", "", []string{"entrypointer-tool-ni"}},
	} {
		t.Run(name, func(t *testing.T) {
			injector := offering(pod.DeliveryImageVolume, test.tools...)
			sent := withTools(asking(running("a", "x")), test.asks)
			result := inject(t, injector, sent)
			require.Equal(t, test.copied, toolContainers(result.Pod))
			require.Equal(t, []string{pod.ToolsMountPath + ":" + test.mounted}, toolMounts(result.Pod.Spec.Containers[0]))
			volume := result.Pod.Spec.Volumes[1]
			require.Equal(t, pod.ToolsVolumeName, volume.Name)
			if test.mounted != "" {
				require.Equal(t, &corev1.ImageVolumeSource{Reference: ni.Image, PullPolicy: corev1.PullIfNotPresent}, volume.Image)
				require.NotContains(t, result.Pod.Annotations, safeToEvict, "an image is no local storage")
			} else {
				require.NotNil(t, volume.EmptyDir)
				require.Equal(t, pod.ToolsVolumeName, result.Pod.Annotations[safeToEvict])
				require.Equal(t, "ko-app", result.Pod.Spec.InitContainers[0].VolumeMounts[0].SubPath, "where the supervisor is")
			}
			requireSamePod(t, result.Pod, patched(t, sent, result.Pod), "the patch leads elsewhere")
			require.Equal(t, pod.AlreadyInjected, inject(t, injector, result.Pod).Outcome)
		})
	}
}

func TestContainersThatAskForToolsGetThem(t *testing.T) {
	two := func() *corev1.Pod { return asking(running("a", "x"), running("b", "y")) }
	mounted := []string{pod.ToolsMountPath + ":"}
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		defaults string
		a, b     []string
	}{
		"nobody":                          {two(), "", nil, nil},
		"the pod":                         {withTools(two(), "ni"), "", mounted, mounted},
		"one container":                   {annotated(two(), "tools.entrypointer.dev/b", "ni"), "", nil, mounted},
		"all but one":                     {annotated(withTools(two(), "ni"), "tools.entrypointer.dev/b", "none"), "", mounted, nil},
		"the namespace":                   {two(), "ni", mounted, mounted},
		"the namespace, and not this pod": {withTools(two(), "none"), "ni", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			injector := offering(pod.DeliveryInitContainer, ni)
			if test.defaults != "" {
				injector.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/tools": test.defaults})}
			}
			wrapped := inject(t, injector, test.pod).Pod
			require.Equal(t, test.a, toolMounts(wrapped.Spec.Containers[0]))
			require.Equal(t, test.b, toolMounts(wrapped.Spec.Containers[1]))
			require.Equal(t, test.a != nil || test.b != nil, slices.Contains(toolContainers(wrapped), "entrypointer-tool-ni"))
		})
	}
}

func TestPATHIsAddedToWhereToolsAre(t *testing.T) {
	injector := offering(pod.DeliveryInitContainer, ni)
	p := annotated(asking(running("a", "x"), running("b", "y")), "tools.entrypointer.dev/b", "ni", "entrypointer.dev/tools-in-path", "true")
	wrapped := inject(t, injector, p).Pod
	require.Equal(t, []string{"--", "x"}, wrapped.Spec.Containers[0].Args)
	require.Equal(t, []string{"-append-path=/entrypointer/tools", "--", "y"}, wrapped.Spec.Containers[1].Args)
	annotated(p, "tools-in-path.entrypointer.dev/b", "false")
	require.Equal(t, []string{"--", "y"}, inject(t, injector, p).Pod.Spec.Containers[1].Args)
}

// Whose word it is decides what becomes of a pod: its author can correct an
// annotation of the pod, and nothing else.
func TestAnUnavailableTool(t *testing.T) {
	team, err := lookup.ParsePattern("registry.example.test/team")
	require.NoError(t, err)
	restricted := offering(pod.DeliveryInitContainer, ni, yq)
	restricted.ToolRegistries = lookup.AllowList{Everywhere: []lookup.Pattern{team}}
	for name, test := range map[string]struct {
		injector *pod.Injector
		asks     string
		reason   pod.Reason // of a warning
		says     []string
	}{
		"unknown":               {offering(pod.DeliveryInitContainer, ni, yq), "nii", pod.ReasonToolNotOffered, []string{`there is no tool "nii"; the operator of entrypointer offers ni, yq`}},
		"unknown, and no other": {offering(pod.DeliveryInitContainer), "ni", pod.ReasonToolNotOffered, []string{`there is no tool "ni": the operator of entrypointer offers none`}},
		"of a registry that isn't allowed here": {restricted, "ni, yq", pod.ReasonToolNotAllowed, []string{
			`namespace "tenant" can't have tool "ni"`, ni.Image, "have the operator of entrypointer allow them",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.injector.Inject(t.Context(), "tenant", withTools(asking(running("a", "x")), test.asks))
			requireRefused(t, err, pod.InvalidAnnotation, append(test.says, "reading annotation entrypointer.dev/tools: ")...)

			test.injector.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/tools": test.asks})}
			result := inject(t, test.injector, asking(running("a", "x"), running("b", "y")))
			require.Equal(t, pod.Injected, result.Outcome)
			require.Len(t, result.Warnings, 1, "once for all of its containers")
			require.Equal(t, test.reason, result.Warnings[0].Reason)
			for _, says := range append(test.says, `annotation entrypointer.dev/tools of namespace "tenant"`, "run without it") {
				require.Contains(t, result.Warnings[0].Message, says)
			}
			require.NotContains(t, toolContainers(result.Pod), "entrypointer-tool-ni")
			require.Equal(t, strings.Contains(test.asks, "yq"), slices.Contains(toolContainers(result.Pod), "entrypointer-tool-yq"), "the others are there")
			require.Empty(t, inject(t, test.injector, result.Pod).Warnings, "a second look says nothing new")
		})
	}
	for _, value := range []string{"", ",", "Ni", "ni, none", "a/b", strings.Repeat("x", 46), strings.Join(strings.Split("abcdefghijklmnopq", ""), ","), strings.Repeat("ni,", 1<<16)} {
		_, err := offering(pod.DeliveryInitContainer, ni).Inject(t.Context(), "tenant", withTools(asking(running("a", "x")), value))
		requireRefused(t, err, pod.InvalidAnnotation, "entrypointer.dev/tools", `it can be names of tools, 16 at most, separated by commas, or "none"`)
	}
	none := offering(pod.DeliveryInitContainer, ni)
	none.Policy.PodOptions = []string{}
	_, err = none.Inject(t.Context(), "tenant", withTools(asking(running("a", "x")), "ni"))
	requireRefused(t, err, pod.InvalidAnnotation, "the operator doesn't let pods set this option")
}

// Each container of a pod of megabytes asks for what isn't there.
func TestAPodOfManyContainersIsWarnedOfToolsOnce(t *testing.T) {
	injector := offering(pod.DeliveryInitContainer, ni)
	names := "a,b,c,d,e,f,g,h,i,j,k,l,m,ni,o,p"
	injector.Defaults = []pod.Defaults{pod.NamespaceDefaults("tenant", map[string]string{"entrypointer.dev/tools": names})}
	p := asking()
	for i := range 5000 {
		p.Spec.Containers = append(p.Spec.Containers, running(fmt.Sprint("c", i), "x"))
	}
	result := inject(t, injector, p)
	require.Len(t, result.Warnings, 15)
	require.Len(t, result.Pod.Spec.InitContainers, 2)
}

func TestAToolThatNoPodCouldGetIsInvalid(t *testing.T) {
	require.NoError(t, ni.Check())
	longest := ni
	longest.Name, longest.Path = strings.Repeat("x", 45), "/"+strings.Repeat("p", 1023)
	require.NoError(t, longest.Check())
	require.Len(t, "entrypointer-tool-"+longest.Name, 63)
	for name, test := range map[string]struct {
		change func(*pod.Tool)
		says   string
	}{
		"no name":                  {func(o *pod.Tool) { o.Name = "" }, `name "": a tool's name has`},
		"a path as its name":       {func(o *pod.Tool) { o.Name = "../ni" }, "a tool's name has at most 45 lower-case letters"},
		"too long a name":          {func(o *pod.Tool) { o.Name = strings.Repeat("x", 46) }, "at most 45"},
		"the name of none":         {func(o *pod.Tool) { o.Name = "none" }, `name "none" stands for no tools`},
		"no image":                 {func(o *pod.Tool) { o.Image = "" }, "is no reference"},
		"an image by its tag":      {func(o *pod.Tool) { o.Image = "registry.example/ni:1" }, `has no digest, without which its content may change; write registry.example/ni@sha256:..., with the digest that "crane digest registry.example/ni:1" prints`},
		"a digest that is short":   {func(o *pod.Tool) { o.Image = "registry.example/ni@sha256:123" }, "is no reference"},
		"a digest of no algorithm": {func(o *pod.Tool) { o.Image = "registry.example/ni@sha1:" + strings.Repeat("0", 40) }, "unsupported digest algorithm"},
		"no path":                  {func(o *pod.Tool) { o.Path = "" }, `path "" can't be a program's path`},
		"a relative path":          {func(o *pod.Tool) { o.Path = "ko-app/ni" }, "write an absolute path"},
		"a path that isn't clean":  {func(o *pod.Tool) { o.Path = "/ko-app/../ni" }, "such as /ko-app/ni"},
		"the root":                 {func(o *pod.Tool) { o.Path = "/" }, "can't be a program's path"},
		"too long a path":          {func(o *pod.Tool) { o.Path = "/" + strings.Repeat("p", 1024) }, "at most 1024 bytes"},
		"a path of the kernel's":   {func(o *pod.Tool) { o.Path = "/proc/self/exe" }, "is in /proc, where a container has other files"},
		"a path of ours":           {func(o *pod.Tool) { o.Path = "/entrypointer/tools/ni" }, "is in /entrypointer"},
	} {
		tool := ni
		test.change(&tool)
		require.ErrorContains(t, tool.Check(), test.says, name)
	}
}

// The user of the tool's image matters only to the kubelet, which refuses root.
func TestAToolIsCopiedByAUserThatIsNotRoot(t *testing.T) {
	as := func(user *int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: user} }
	for name, test := range map[string]struct {
		pod, container, want *int64
	}{
		"no user is set":               {nil, nil, new(int64(65532))},
		"the pod does":                 {new(int64(1000)), nil, nil},
		"the pod says root":            {new(int64(0)), nil, new(int64(65532))},
		"a container does":             {nil, new(int64(1000680000)), new(int64(1000680000))},
		"a container says root":        {nil, new(int64(0)), new(int64(65532))},
		"both, and the pod's is there": {new(int64(1000)), new(int64(2000)), nil},
	} {
		p := withTools(asking(running("first", "x"), running("a", "x")), "ni")
		if test.pod != nil {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: test.pod}
		}
		if test.container != nil {
			p.Spec.Containers[1].SecurityContext = as(test.container)
		}
		context := inject(t, offering(pod.DeliveryInitContainer, ni), p).Pod.Spec.InitContainers[1].SecurityContext
		require.Equal(t, test.want, context.RunAsUser, name)
		require.True(t, *context.RunAsNonRoot, name)
	}

	// An OpenShift SCC may come after us, and we after it.
	injector := offering(pod.DeliveryInitContainer, ni)
	p := inject(t, injector, withTools(asking(running("a", "x")), "ni")).Pod
	p.Spec.Containers[0].SecurityContext = as(new(int64(1000680000)))
	require.Equal(t, new(int64(1000680000)), inject(t, injector, p).Pod.Spec.InitContainers[1].SecurityContext.RunAsUser)
	p.Spec.InitContainers[1].SecurityContext.RunAsUser = new(int64(1000690000))
	require.Equal(t, new(int64(1000690000)), inject(t, injector, p).Pod.Spec.InitContainers[1].SecurityContext.RunAsUser, "theirs stays")
}

// Each of these would have another program copied, or elsewhere, or with more rights.
func TestAForgedContainerOfAToolIsRepaired(t *testing.T) {
	injector := offering(pod.DeliveryInitContainer, ni, yq)
	wrapped := func() *corev1.Pod { return inject(t, injector, withTools(asking(running("a", "x")), "ni, yq")).Pod }
	of := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.InitContainers[1]) }
	}
	for name, forge := range map[string]func(*corev1.Pod){
		"another image":                of(func(c *corev1.Container) { c.Image = "evil" }),
		"a command":                    of(func(c *corev1.Container) { c.Command = []string{"/evil"} }),
		"another path":                 of(func(c *corev1.Container) { c.Args[1] = "/evil" }),
		"a working directory":          of(func(c *corev1.Container) { c.WorkingDir = "/evil" }),
		"a volume over the tool":       of(mountedAt("/ko-app")),
		"a file over the tool":         of(mountedAt("/ko-app/ni")),
		"a volume over the supervisor": of(mountedAt("/entrypointer")),
		"a volume that can't be filled": of(func(c *corev1.Container) {
			c.VolumeMounts[1].ReadOnly = true
		}),
		"a part of the volume": of(func(c *corev1.Container) { c.VolumeMounts[1].SubPath = "evil" }),
		"a native sidecar":     of(func(c *corev1.Container) { c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }),
		"no security context":  of(func(c *corev1.Container) { c.SecurityContext = nil }),
		"root":                 of(func(c *corev1.Container) { c.SecurityContext.RunAsUser = new(int64(0)) }),
		"another order":        func(p *corev1.Pod) { slices.Reverse(p.Spec.InitContainers[1:]) },
		"before the supervisor is there": func(p *corev1.Pod) {
			p.Spec.InitContainers[0], p.Spec.InitContainers[1] = p.Spec.InitContainers[1], p.Spec.InitContainers[0]
		},
		"one of them gone": func(p *corev1.Pod) { p.Spec.InitContainers = slices.Delete(p.Spec.InitContainers, 1, 2) },
		"one more": func(p *corev1.Pod) {
			evil := *p.Spec.InitContainers[1].DeepCopy()
			evil.Name, evil.Image = "entrypointer-tool-evil", "evil"
			p.Spec.InitContainers = append(p.Spec.InitContainers, evil)
		},
		"a volume of another size": func(p *corev1.Pod) { p.Spec.Volumes[1].EmptyDir.SizeLimit = nil },
		"an image as the volume": func(p *corev1.Pod) {
			p.Spec.Volumes[1].VolumeSource = corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "evil"}}
		},
		"a part of the volume for a container that asks": func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[1].SubPath = "evil" },
		"a part that a variable names":                   func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[1].SubPathExpr = "$(EVIL)" },
	} {
		t.Run(name, func(t *testing.T) {
			requireRepaired(t, injector, wrapped(), forge)
		})
	}
}

func TestWhatOtherWebhooksAddToAToolsContainerStays(t *testing.T) {
	injector := offering(pod.DeliveryInitContainer, ni)
	for name, change := range map[string]func(*corev1.Container){
		"a mirror's name for the image": func(c *corev1.Container) { c.Image = "mirror.example.test/ni@sha256:" + strings.Repeat("6", 64) },
		"a certificate":                 mountedAt("/etc/ssl/certs/ca-certificates.crt"),
		"variables":                     func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "proxy:3128"}} },
		"resources":                     func(c *corev1.Container) { c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: {}} },
	} {
		t.Run(name, func(t *testing.T) {
			p := inject(t, injector, withTools(asking(running("a", "x")), "ni")).Pod
			change(&p.Spec.InitContainers[1])
			result := inject(t, injector, p)
			require.Equal(t, pod.AlreadyInjected, result.Outcome)
			require.Equal(t, p, result.Pod)
		})
	}
}

func TestWhatOtherWebhooksPutBeforeAToolsContainerStaysThere(t *testing.T) {
	for _, delivery := range []pod.Delivery{pod.DeliveryInitContainer, pod.DeliveryImageVolume} {
		injector := offering(delivery, ni, yq)
		p := inject(t, injector, withTools(asking(running("a", "x")), "ni, yq")).Pod
		p.Spec.InitContainers = slices.Insert(p.Spec.InitContainers, len(p.Spec.InitContainers)-2, running("theirs", "x"))
		require.Equal(t, pod.AlreadyInjected, inject(t, injector, p).Outcome)
	}
}

func TestNamesAndPathsOfToolsThatAreTakenAreRefused(t *testing.T) {
	mounting := func(path string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { mountedAt(path)(&p.Spec.Containers[0]) }
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   string
	}{
		"a volume": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "entrypointer-tools", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, `adding volume "entrypointer-tools"`},
		"an init container": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{running("entrypointer-tool-ni", "x")}
		}, `adding init container "entrypointer-tool-ni"`},
		"a container": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("entrypointer-tool-ni", "x"))
		}, `adding init container "entrypointer-tool-ni"`},
		"a mount there":   {mounting("/entrypointer/tools"), `where volume "entrypointer-tools" belongs`},
		"a mount below":   {mounting("entrypointer/tools/ni"), "mount it elsewhere"},
		"a mount not far": {mounting("/entrypointer/tools/../tools/x"), "mount it elsewhere"},
		"a device": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "d", DevicePath: "/entrypointer/tools/d"}}
		}, `its volume "d"`},
		"a message": {func(p *corev1.Pod) { p.Spec.Containers[0].TerminationMessagePath = "/entrypointer/tools/ni" }, "terminationMessagePath"},
		"a container that may write there": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{running("evil", "x")}
			p.Spec.InitContainers[0].VolumeMounts = []corev1.VolumeMount{{Name: "entrypointer-tools", MountPath: "/x"}}
		}, `container "evil" mounts it as well`},
		"the container itself": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "entrypointer-tools", MountPath: "/entrypointer/tools"}}
		}, "mount it elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			p := withTools(asking(running("a", "x")), "ni")
			test.change(p)
			_, err := offering(pod.DeliveryInitContainer, ni).Inject(t.Context(), "tenant", p)
			requireRefused(t, err, pod.NameCollision, test.says)
			// Who asks for no tools has the names for himself.
			if name != "a container" { // it would be wrapped as any other
				annotated(p, "entrypointer.dev/tools", "none")
				before := p.DeepCopy()
				after := inject(t, offering(pod.DeliveryInitContainer, ni), p).Pod
				for i, v := range before.Spec.Volumes {
					require.Equal(t, v, after.Spec.Volumes[i])
				}
				for i, m := range before.Spec.Containers[0].VolumeMounts {
					require.Equal(t, m, after.Spec.Containers[0].VolumeMounts[i])
				}
			}
		})
	}
}

// The operator may change the delivery, and offer other tools, between two looks at
// a pod. What comes out is what the last one alone would have made.
func TestWhicheverToolsAreThereLastAPodHasThose(t *testing.T) {
	var offers []*pod.Injector
	for _, delivery := range []pod.Delivery{pod.DeliveryInitContainer, pod.DeliveryImageVolume} {
		for _, tools := range [][]pod.Tool{nil, {ni}, {ni, other}, {ni, yq}, {yq}, {ni, other, yq}} {
			injector := offering(delivery, tools...)
			injector.Defaults = []pod.Defaults{{Source: "of namespace \"tenant\"", Values: map[string]string{"tools": "ni, other, yq", "tools-in-path": "true"}}}
			offers = append(offers, injector)
		}
	}
	sent := asking(running("a", "x"), running("istio-proxy", "i"), running("b", "y"))
	sent.Spec.Volumes = []corev1.Volume{{Name: "theirs"}}
	sent.Spec.InitContainers = []corev1.Container{running("theirs", "i")}
	annotated(sent, "tools.entrypointer.dev/b", "none")
	for i, first := range offers {
		before := inject(t, first, sent).Pod
		for j, last := range offers {
			story := fmt.Sprint(i, " then ", j)
			want := inject(t, last, sent).Pod
			result := inject(t, last, before)
			requireSamePod(t, &corev1.Pod{Spec: want.Spec}, &corev1.Pod{Spec: result.Pod.Spec}, story)
			requireSamePod(t, result.Pod, patched(t, before, result.Pod), story)
			require.Equal(t, pod.AlreadyInjected, inject(t, last, result.Pod).Outcome, story)
		}
	}
}

// No API server takes two volumes of one name, but webhooks are asked before it says so.
func TestTwoVolumesOfTheNameGoAtOnce(t *testing.T) {
	p := asking(running("a", "x"))
	p.Spec.Volumes = make([]corev1.Volume, 2)
	for i := range p.Spec.Volumes {
		p.Spec.Volumes[i] = corev1.Volume{Name: "entrypointer-tools", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	}
	result := inject(t, newInjector(nil), p)
	require.Len(t, result.Pod.Spec.Volumes, 1)
	requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
	require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
}

func TestAContainerThatIsNotWrappedMayMountTheToolsAsOthersDo(t *testing.T) {
	p := withTools(asking(running("a", "x"), running("istio-proxy", "i")), "ni")
	p.Spec.Containers[1].VolumeMounts = []corev1.VolumeMount{{Name: "entrypointer-tools", MountPath: "/entrypointer/tools", ReadOnly: true}}
	for _, delivery := range []pod.Delivery{pod.DeliveryInitContainer, pod.DeliveryImageVolume} {
		result := inject(t, offering(delivery, ni), p)
		require.Equal(t, toolMounts(result.Pod.Spec.Containers[0]), toolMounts(result.Pod.Spec.Containers[1]))
		p = result.Pod
	}
}
