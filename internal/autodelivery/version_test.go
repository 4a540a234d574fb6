// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhichVersionsCanMountImages(t *testing.T) {
	for _, test := range []struct{ kubelet, runtime, lacks string }{
		{"v1.35.0", "containerd://2.2.0", ""},
		{"v1.35.4+k3s1", "containerd://2.2.1-k3s1", ""},
		{"v1.36.3", "containerd://2.3.5", ""},
		{"v1.35.0-gke.1000", "containerd://2.2.0", ""},
		{"v1.35.0-eks-3025e55", "containerd://2.2.0+unknown", ""},
		{"v1.36.0-rc.1", "containerd://2.3.0-beta.0", ""},
		{"v2.0.0", "containerd://3.0.0", ""},
		{"v1.35.1", "cri-o://1.34.1", ""},
		{"v1.35.1", "cri-o://1.33.0", ""},

		{"v1.34.9", "containerd://2.2.0", "kubelet v1.34.9 is older than 1.35.0"},
		{"v1.35.0-rc.1", "containerd://2.2.0", "kubelet v1.35.0-rc.1 is older than 1.35.0"},
		{"v1.35.0-alpha.3.12+abc", "containerd://2.2.0", "is older"},
		{"v1.35.0", "containerd://2.2.0-rc.1", "containerd 2.2.0-rc.1 is older than 2.2.0"},
		{"v1.35.0", "containerd://2.1.4", "containerd 2.1.4 is older than 2.2.0"},
		{"v1.35.0", "containerd://1.7.27-k3s1", "is older"},
		{"v1.35.0", "cri-o://1.32.9", "cri-o 1.32.9 is older than 1.33.0"},
		{"v1.35.0", "docker://28.3.0", `container runtime "docker://28.3.0" isn't known`},
		{"v1.35.0", "containerd://Unknown", `containerd has a version that can't be read: "Unknown"`},
		{"v1.35.0", "containerd://", "can't be read"},
		{"v1.35.0", "containerd", `container runtime "containerd" isn't known`},
		{"v1.35.0", "://2.2.0", "isn't known"},
		{"v1.35.0", "", `container runtime "" isn't known`},
		{"", "containerd://2.2.0", `kubelet has a version that can't be read: ""`},
		{"v1", "containerd://2.2.0", "can't be read"},
		{"one.two", "containerd://2.2.0", "can't be read"},
		{"v1.99999999999999999999999", "containerd://2.2.0", "can't be read"},
		{"v-1.35.0", "containerd://2.2.0", "can't be read"},
	} {
		got := system{Kubelet: test.kubelet, Runtime: test.runtime}.lacks()
		if test.lacks == "" {
			require.Empty(t, got, "%s %s", test.kubelet, test.runtime)
		} else {
			require.Contains(t, got, test.lacks, "%s %s", test.kubelet, test.runtime)
		}
	}
}

func FuzzWhateverANodeSaysOfItselfIsRead(f *testing.F) {
	f.Add("v1.35.4+k3s1", "containerd://2.2.0-rc.1")
	f.Add("", "cri-o://")
	f.Add("v1.35", "docker://\xff")
	f.Fuzz(func(t *testing.T, kubelet, runtime string) {
		s := system{Kubelet: kubelet, Runtime: runtime}
		why := s.lacks()
		require.Less(t, len(why), 4*2*maxShown) // quoted
		if why == "" {
			require.True(t, strings.HasPrefix(runtime, "containerd://") || strings.HasPrefix(runtime, "cri-o://"))
		}
		require.Len(t, s.question(Images{}), 16)
	})
}
