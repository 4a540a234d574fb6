// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	registrationvalidation "k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	k8sbatchv1 "k8s.io/kubernetes/pkg/apis/batch/v1"
	"sigs.k8s.io/yaml"
)

// claimsPolicy is the policy of config/claims, which the API server takes.
func claimsPolicy(t *testing.T) *admissionPolicy {
	t.Helper()
	text, err := os.ReadFile("../../config/claims/210-confine-claims.yaml")
	require.NoError(t, err)
	var policy admissionregistrationv1.ValidatingAdmissionPolicy
	require.NoError(t, yaml.UnmarshalStrict(splitYAML(text)[0], &policy))
	object := policy.DeepCopy()
	legacyscheme.Scheme.Default(object)
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, schema.GroupVersion{Group: admissionregistrationv1.GroupName, Version: runtime.APIVersionInternal})
	require.NoError(t, err)
	require.NoError(t, registrationvalidation.ValidateValidatingAdmissionPolicy(internal.(*admissionregistration.ValidatingAdmissionPolicy)).ToAggregate())
	return newPolicy(t, policy.Spec)
}

const ourClaim = "entrypointer-0123456789ab"

// withImages is the injector's namespace, as config/webhook has it, with the images of the Job.
func withImages(t *testing.T) *corev1.Namespace {
	t.Helper()
	containers := ourJob(t).Spec.Template.Spec.Containers
	ns := installed()
	ns.Annotations = map[string]string{
		"entrypointer-copier-image": containers[0].Image, "entrypointer-copier-with-logs-image": containers[1].Image,
	}
	return ns
}

func ourMeta(owner string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: ourClaim, Namespace: "tenant", Labels: map[string]string{"app.kubernetes.io/managed-by": "entrypointer"},
		OwnerReferences: []metav1.OwnerReference{{Kind: owner, Name: ourClaim}},
	}
}

// ourJob is one as the injector creates it (internal/claims writes the file), and as
// an API server has it when policies look at it.
func ourJob(t *testing.T) *batchv1.Job {
	t.Helper()
	text, err := os.ReadFile("../../internal/claims/testdata/job.json")
	require.NoError(t, err)
	var job batchv1.Job
	require.NoError(t, json.Unmarshal(text, &job))
	k8sbatchv1.SetObjectDefaults_Job(&job)
	// What generateSelector does, in k8s.io/kubernetes/pkg/registry/batch/job/strategy.go.
	job.UID = "uid-of-job"
	job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)}}
	maps.Copy(job.Spec.Template.Labels, map[string]string{
		batchv1.ControllerUidLabel: string(job.UID), "controller-uid": string(job.UID), batchv1.JobNameLabel: job.Name, "job-name": job.Name,
	})
	return &job
}

func TestTheInjectorsJobsOnlyFillClaims(t *testing.T) {
	policy := claimsPolicy(t)
	for what, test := range map[string]struct {
		allowed bool
		change  func(*batchv1.Job, *corev1.PodSpec)
	}{
		"as they are":                  {true, func(*batchv1.Job, *corev1.PodSpec) {}},
		"for nobody":                   {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.OwnerReferences = nil }},
		"another name":                 {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Name = "theirs" }},
		"without their label":          {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Labels = nil }},
		"a finalizer":                  {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Finalizers = []string{"example.test/stays"} }},
		"many pods at once":            {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.Parallelism = new(int32(2)) }},
		"many pods":                    {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.Completions = new(int32(2)) }},
		"pods with an index":           {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.CompletionMode = new(batchv1.IndexedCompletion) }},
		"again and again":              {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.BackoffLimit = new(int32(4)) }},
		"no end":                       {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.ActiveDeadlineSeconds = nil }},
		"a late end":                   {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.ActiveDeadlineSeconds = new(int64(601)) }},
		"somebody else's pods":         {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.ManualSelector = new(true) }},
		"another controller":           {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.ManagedBy = new("example.test/controller") }},
		"failures that don't count":    {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{} }},
		"its own idea of success":      {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{} }},
		"failures by index":            {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.BackoffLimitPerIndex = new(int32(9)) }},
		"failed indexes":               {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.MaxFailedIndexes = new(int32(9)) }},
		"suspended, as a queue has it": {true, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.Suspend = new(true) }},
		"an annotation": {false, func(j *batchv1.Job, _ *corev1.PodSpec) {
			j.Spec.Template.Annotations = map[string]string{"sidecar.example.test/inject": "true"}
		}},
		"the label of a Service": {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.Template.Labels["app"] = "shop" }},
		"another part":           {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.Template.Labels["app.kubernetes.io/part-of"] = "shop" }},
		"another Job's name":     {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.Template.Labels["job-name"] = "theirs" }},
		"a finalizer of the pod": {false, func(j *batchv1.Job, _ *corev1.PodSpec) { j.Spec.Template.Finalizers = []string{"example.test/stays"} }},
		"another image":          {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].Image = "registry.test/evil@sha256:2222" }},
		"an image by a tag":      {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].Image = "registry.test/copier:latest" }},
		"another command":        {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].Command = []string{"/ko-app/entrypoint"} }},
		"other arguments":        {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].Args = []string{"-durable", "/claim/other"} }},
		"an argument more":       {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].Args = append(p.Containers[0].Args, "x") }},
		"no arguments":           {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].Args = nil }},
		"a container more":       {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers = append(p.Containers, p.Containers[0]) }},
		"an init container":      {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.InitContainers = p.Containers }},
		"an ephemeral container": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.EphemeralContainers = []corev1.EphemeralContainer{{}} }},
		"another directory":      {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].WorkingDir = "/claim" }},
		"variables":              {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].Env = []corev1.EnvVar{{Name: "A"}} }},
		"variables of a secret":  {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].EnvFrom = []corev1.EnvFromSource{{}} }},
		"a port": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8443}}
		}},
		"a hook":            {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].Lifecycle = &corev1.Lifecycle{} }},
		"a liveness probe":  {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].LivenessProbe = &corev1.Probe{} }},
		"a readiness probe": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].ReadinessProbe = &corev1.Probe{} }},
		"a startup probe":   {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].StartupProbe = &corev1.Probe{} }},
		"a container that is restarted": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}},
		"rules of restarts": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{}}
		}},
		"input":      {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].Stdin = true }},
		"a terminal": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].TTY = true }},
		"a secret": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}
		}},
		"another claim": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Volumes[0].PersistentVolumeClaim.ClaimName = "theirs" }},
		"a block device": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "claim", DevicePath: "/dev/x"}}
		}},
		"another mount path":   {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].VolumeMounts[0].MountPath = "/etc" }},
		"a part of the claim":  {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].VolumeMounts[0].SubPath = "plain" }},
		"a part by a variable": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].VolumeMounts[0].SubPathExpr = "$(A)" }},
		"mounts that propagate": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].VolumeMounts[0].MountPropagation = new(corev1.MountPropagationBidirectional)
		}},
		"a token":             {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil }},
		"the default account": {true, func(_ *batchv1.Job, p *corev1.PodSpec) { p.ServiceAccountName = "default" }},
		"another account":     {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.ServiceAccountName = "admin" }},
		"a restart":           {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.RestartPolicy = corev1.RestartPolicyOnFailure }},
		"a slow end":          {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.TerminationGracePeriodSeconds = new(int64(3600)) }},
		"another scheduler":   {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SchedulerName = "theirs" }},
		"a chosen node":       {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.NodeSelector["kubernetes.io/hostname"] = "node" }},
		"any system":          {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.NodeSelector = nil }},
		"a node by name":      {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.NodeName = "node" }},
		"an affinity":         {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Affinity = &corev1.Affinity{} }},
		"a toleration": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}},
		"a spread": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}}
		}},
		"a gate": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.test/gate"}}
		}},
		"a readiness gate": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.ReadinessGates = []corev1.PodReadinessGate{{}} }},
		"critical":         {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" }},
		"a priority":       {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Priority = new(int32(2000000000)) }},
		"preemption":       {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.PreemptionPolicy = new(corev1.PreemptLowerPriority) }},
		"another runtime":  {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.RuntimeClassName = new("any") }},
		"overhead":         {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Overhead = amounts(resources{"cpu": "64"}) }},
		"a device":         {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.ResourceClaims = []corev1.PodResourceClaim{{}} }},
		"a pull secret": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "theirs"}}
		}},
		"the node's network":          {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.HostNetwork = true }},
		"the node's processes":        {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.HostPID = true }},
		"the node's memory":           {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.HostIPC = true }},
		"the node's users":            {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.HostUsers = new(true) }},
		"processes of one another":    {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.ShareProcessNamespace = new(true) }},
		"a host name":                 {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Hostname = "shop" }},
		"a domain":                    {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Subdomain = "shop" }},
		"another host name":           {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.HostnameOverride = new("shop") }},
		"a full host name":            {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SetHostnameAsFQDN = new(true) }},
		"other hosts":                 {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.HostAliases = []corev1.HostAlias{{}} }},
		"another DNS":                 {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.DNSConfig = &corev1.PodDNSConfig{} }},
		"as anybody":                  {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SecurityContext = nil }},
		"as root":                     {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil }},
		"a user of the pod":           {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(1000)) }},
		"a group of the pod":          {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SecurityContext.RunAsGroup = new(int64(0)) }},
		"more groups":                 {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SecurityContext.SupplementalGroups = []int64{0} }},
		"another group of the volume": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SecurityContext.FSGroup = new(int64(0)) }},
		"a sysctl": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}
		}},
		"SELinux of the pod": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{} }},
		"AppArmor of the pod": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}},
		"no seccomp": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil }},
		"an unconfined pod": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined
		}},
		"a container that says nothing": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].SecurityContext = nil }},
		"privileged":                    {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = new(true) }},
		"a user":                        {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].SecurityContext.RunAsUser = new(int64(0)) }},
		"a group":                       {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].SecurityContext.RunAsGroup = new(int64(0)) }},
		"a container as root":           {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].SecurityContext.RunAsNonRoot = new(false) }},
		"more privileges": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		}},
		"all capabilities": {false, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities = nil }},
		"some capabilities": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Drop = []corev1.Capability{"CHOWN"}
		}},
		"a capability": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
		}},
		"an unconfined container": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined
		}},
		"the pod's seccomp": {true, func(_ *batchv1.Job, p *corev1.PodSpec) { p.Containers[0].SecurityContext.SeccompProfile = nil }},
		"another proc": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.ProcMount = new(corev1.UnmaskedProcMount)
		}},
		"SELinux": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{}
		}},
		"AppArmor": {false, func(_ *batchv1.Job, p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			job := ourJob(t)
			test.change(job, &job.Spec.Template.Spec)
			r := request{operation: admission.Create, resource: "jobs", user: injector, object: job, namespace: tenant("true"), params: withImages(t)}
			says := policy.refuses(t, r)
			require.Equal(t, test.allowed, len(says) == 0, "%v", says)
			r.user = "somebody else"
			require.Empty(t, policy.refuses(t, r))
		})
	}
}

func TestTheInjectorWritesItsOwnClaimsWhereANamespaceOptedIn(t *testing.T) {
	policy := claimsPolicy(t)
	claim := func(change func(*metav1.ObjectMeta)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: ourMeta("SupervisorVolume")}
		change(&c.ObjectMeta)
		return c
	}
	asItIs := func(*metav1.ObjectMeta) {}
	theirs := func(m *metav1.ObjectMeta) { m.Labels = nil }
	elsewhere := tenant("true")
	elsewhere.Name = "kube-system"
	for what, test := range map[string]struct {
		allowed     bool
		operation   admission.Operation
		object, old *corev1.PersistentVolumeClaim
		namespace   *corev1.Namespace
	}{
		"makes one":                              {true, admission.Create, claim(asItIs), nil, tenant("true")},
		"makes one where nobody opted in":        {false, admission.Create, claim(asItIs), nil, tenant("")},
		"makes one of the cluster's own":         {false, admission.Create, claim(asItIs), nil, elsewhere},
		"makes one of another name":              {false, admission.Create, claim(func(m *metav1.ObjectMeta) { m.Name = "data" }), nil, tenant("true")},
		"makes one for nobody":                   {false, admission.Create, claim(func(m *metav1.ObjectMeta) { m.OwnerReferences = nil }), nil, tenant("true")},
		"deletes its own":                        {true, admission.Delete, nil, claim(asItIs), tenant("true")},
		"deletes its own where nobody is in now": {true, admission.Delete, nil, claim(asItIs), tenant("")},
		"deletes somebody's":                     {false, admission.Delete, nil, claim(theirs), tenant("true")},
		"changes one":                            {false, admission.Update, claim(asItIs), claim(asItIs), tenant("true")},
	} {
		t.Run(what, func(t *testing.T) {
			r := request{operation: test.operation, resource: "persistentvolumeclaims", user: injector, namespace: test.namespace, params: withImages(t)}
			if test.object != nil {
				r.object = test.object
			}
			if test.old != nil {
				r.old = test.old
			}
			says := policy.refuses(t, r)
			require.Equal(t, test.allowed, len(says) == 0, "%v", says)
		})
	}
}
