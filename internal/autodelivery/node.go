// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Images are the images that are mounted, pinned by digest.
type Images struct {
	Entrypoint string `json:"entrypoint"`
	// WithLogs is the image for pods whose output goes to the log service.
	WithLogs string `json:"withLogs"`
}

// A system is the set of properties that decide whether a node can mount images. A proof
// for one node of a system holds for all. The OS image determines the kernel.
type system struct {
	Kubelet      string `json:"kubelet"`
	Runtime      string `json:"runtime"`
	OSImage      string `json:"osImage"`
	Architecture string `json:"architecture"`
}

func (s system) String() string {
	return fmt.Sprintf("kubelet %s, %s, %s, %s", bounded(s.Kubelet), bounded(s.Runtime), bounded(s.OSImage), bounded(s.Architecture))
}

// question returns the id of the question whether a system can mount these images.
func (s system) question(images Images) string {
	text, err := json.Marshal([]any{s, images})
	if err != nil {
		panic(err) // strings can be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// A node holds the relevant properties of a Node.
type node struct {
	name string
	system
	// apart marks a node on which pods that get image volumes can't land: it is cordoned,
	// runs Windows, or repels them by the taint of virtual kubelets.
	apart bool
	ready bool
}

func nodeOf(n *corev1.Node) node {
	info := n.Status.NodeInfo
	windows := info.OperatingSystem == string(corev1.Windows) || n.Labels[corev1.LabelOSStable] == string(corev1.Windows)
	virtual := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == pod.VirtualKubeletTaint && t.Effect != corev1.TaintEffectPreferNoSchedule
	})
	return node{
		name:   n.Name,
		system: system{kept(info.KubeletVersion), kept(info.ContainerRuntimeVersion), kept(info.OSImage), kept(info.Architecture)},
		apart:  n.Spec.Unschedulable || windows || virtual,
		ready: slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}),
	}
}

// maxKept bounds, in bytes, the text of a node's status that is kept: each change of any
// node is followed by a check of all nodes.
const maxKept = 256

func kept(said string) string {
	if len(said) > maxKept {
		return strings.Clone(strings.ToValidUTF8(said[:maxKept], ""))
	}
	return said
}

// slim keeps only the fields of a Node that nodeOf reads, because a node lists all of its
// images.
func slim(object any) (any, error) {
	n, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	var small corev1.Node
	small.Name, small.UID, small.ResourceVersion = n.Name, n.UID, n.ResourceVersion
	if os, labelled := n.Labels[corev1.LabelOSStable]; labelled {
		small.Labels = map[string]string{corev1.LabelOSStable: os}
	}
	small.Spec.Unschedulable = n.Spec.Unschedulable
	for _, t := range n.Spec.Taints {
		if t.Key == pod.VirtualKubeletTaint {
			small.Spec.Taints = append(small.Spec.Taints, corev1.Taint{Key: t.Key, Effect: t.Effect})
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			small.Status.Conditions = append(small.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status})
		}
	}
	info := n.Status.NodeInfo
	small.Status.NodeInfo = corev1.NodeSystemInfo{
		KubeletVersion: kept(info.KubeletVersion), ContainerRuntimeVersion: kept(info.ContainerRuntimeVersion),
		OSImage: kept(info.OSImage), Architecture: kept(info.Architecture), OperatingSystem: kept(info.OperatingSystem),
	}
	return &small, nil
}
