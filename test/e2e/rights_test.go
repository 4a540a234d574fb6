// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/autodelivery"
	"github.com/entrypointer/entrypointer/internal/namespaces"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// injectorUser is whom the API server takes the injector for.
const injectorUser = "system:serviceaccount:" + framework.SystemNamespace + ":" + framework.Injector

// can asks whether the injector may do something.
func can(t *testing.T, what ...string) bool {
	t.Helper()
	words := append([]string{"auth", "can-i", "--as", injectorUser}, what...)
	// kubectl says "no" and fails.
	out, err := exec.CommandContext(t.Context(), "kubectl", words...).Output()
	switch answer, _, _ := strings.Cut(strings.TrimSpace(string(out)), " "); answer {
	case "yes":
		return true
	case "no":
		return false
	default:
		require.NoError(t, err, "kubectl %v", words)
		t.Fatalf("kubectl %v says %q", words, out)
		return false
	}
}

// allowed are the lines of kubectl auth can-i --list, for what a user may do in a
// namespace.
func allowed(t *testing.T, user, namespace string) []string {
	t.Helper()
	out, err := framework.Run(t.Context(), "kubectl", "auth", "can-i", "--list", "--no-headers", "--as", user, "-n", namespace)
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestTheInjectorReadsPullSecretsOnlyWhileANamespaceIsOptedIn(t *testing.T) {
	t.Parallel()
	elsewhere, namespace := plainNamespace(t), optedInNamespace(t)
	waitForGrant(t, namespace, true)
	for _, resource := range []string{"secrets", "serviceaccounts"} {
		require.True(t, can(t, "get", resource+"/any", "-n", namespace), resource)
		for _, other := range []string{elsewhere, metav1.NamespaceDefault, metav1.NamespaceSystem} {
			require.False(t, can(t, "get", resource+"/any", "-n", other), "%s in %s", resource, other)
		}
		for _, verb := range []string{"list", "watch", "create", "update", "patch", "delete"} {
			require.False(t, can(t, verb, resource, "-n", namespace), "%s %s", verb, resource)
		}
		require.False(t, can(t, "list", resource, "--all-namespaces"), resource)
	}
	_, err := annotate(t.Context(), namespace, "null")
	require.NoError(t, err)
	waitForGrant(t, namespace, false)
	require.False(t, can(t, "get", "secrets/any", "-n", namespace), "after opting out")
}

// Everything that the injector may do beyond what any service account may, as
// kubectl lists it: resources, URLs, names, verbs. A line more is a right too many.
var (
	injectorEverywhere = []string{
		"namespaces [] [] [get list watch patch]",
		"events [] [] [create patch]",
		"namespaces/finalizers [] [entrypointer-system] [update]",
		"rolebindings.rbac.authorization.k8s.io [] [entrypointer-lookup] [list watch create patch delete]",
		"clusterroles.rbac.authorization.k8s.io [] [entrypointer-lookup] [bind]",
		"servicecidrs.networking.k8s.io [] [] [list]",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io [] [] [list watch]",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io [] [pods.entrypointer.dev] [get update delete]",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io [] [namespaces.entrypointer.dev] [get update delete]",
		"validatingwebhookconfigurations.admissionregistration.k8s.io [] [] [list watch]",
		"validatingwebhookconfigurations.admissionregistration.k8s.io [] [config.entrypointer.dev] [get update delete]",
		"validatingwebhookconfigurations.admissionregistration.k8s.io [] [workloads.entrypointer.dev] [get update delete]",
		// config/auto
		"nodes [] [] [list watch]",
		// config/claims
		"supervisorvolumes.entrypointer.dev [] [] [get list watch]",
		"supervisorvolumes.entrypointer.dev [] [entrypointer] [create patch delete]",
		"supervisorvolumes.entrypointer.dev/status [] [entrypointer] [update]",
		"persistentvolumeclaims [] [] [get list watch create delete]",
		"jobs.batch [] [] [get create delete]",
		"storageclasses.storage.k8s.io [] [] [get]",
	}
	injectorWhereOptedIn = []string{
		"secrets [] [] [get]",
		"serviceaccounts [] [] [get]",
	}
	injectorAtHome = []string{
		"configmaps [] [] [get list watch]",
		"secrets [] [] [list watch]",
		"secrets [] [entrypointer-webhook-certs] [get create update patch]",
		"leases.coordination.k8s.io [] [] [get create update]",
		// config/auto
		"pods [] [entrypointer-canary-0] [get create patch delete]",
		"pods [] [entrypointer-canary-1] [get create patch delete]",
		"pods [] [entrypointer-canary-2] [get create patch delete]",
		"configmaps [] [delivery-proofs] [update]",
	}
)

func TestTheInjectorMayDoWhatItNeedsAndNothingElse(t *testing.T) {
	t.Parallel()
	elsewhere, namespace := plainNamespace(t), optedInNamespace(t)
	waitForGrant(t, namespace, true)
	anybody := allowed(t, "system:serviceaccount:"+elsewhere+":default", elsewhere)
	require.NotEmpty(t, anybody)
	for where, more := range map[string][]string{
		elsewhere:                 nil,
		namespace:                 injectorWhereOptedIn,
		framework.SystemNamespace: injectorAtHome,
	} {
		require.ElementsMatch(t, slices.Concat(anybody, injectorEverywhere, more), allowed(t, injectorUser, where), "in namespace %s", where)
	}
	// What one would look for first; the lists above have none of it.
	for _, what := range []string{"create pods", "create pods/exec", "create pods/ephemeralcontainers", "get pods/log", "list pods", "create serviceaccounts/token", "create rolebindings", "create clusterrolebindings", "impersonate users", "escalate clusterroles"} {
		require.False(t, can(t, append(strings.Fields(what), "-n", namespace)...), what)
	}
}

// waitForGrant waits until the API server lets the injector read secrets in a
// namespace, or doesn't any more.
func waitForGrant(t *testing.T, namespace string, want bool) {
	t.Helper()
	injector := asInjector(t)
	eventually(t, time.Minute, fmt.Sprintf("the injector to be granted lookups in namespace %q: %v", namespace, want), func() error {
		_, err := injector.CoreV1().Secrets(namespace).Get(t.Context(), "any", metav1.GetOptions{})
		if granted := apierrors.IsNotFound(err); granted != want {
			return fmt.Errorf("reading a secret as the injector: %w", err)
		}
		return nil
	})
}

// asInjector is what somebody can do who took the injector over.
func asInjector(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate.UserName = injectorUser
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// binding is the RoleBinding that the injector makes, changed.
func binding(change func(*rbacv1.RoleBinding)) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: namespaces.GrantName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespaces.GrantName},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: framework.Injector, Namespace: framework.SystemNamespace}},
	}
	if change != nil {
		change(b)
	}
	return b
}

func encode(t *testing.T, object any) []byte {
	t.Helper()
	encoded, err := json.Marshal(object)
	require.NoError(t, err)
	return encoded
}

func TestWhoeverTakesTheInjectorOverCanGrantItNothingElse(t *testing.T) {
	t.Parallel()
	injector, elsewhere, namespace := asInjector(t), plainNamespace(t), optedInNamespace(t)
	apply := func(namespace string, b *rbacv1.RoleBinding) error {
		_, err := injector.RbacV1().RoleBindings(namespace).Patch(t.Context(), b.Name, types.ApplyPatchType, encode(t, b),
			metav1.PatchOptions{FieldManager: "e2e", Force: new(true), DryRun: []string{metav1.DryRunAll}})
		return err
	}
	require.NoError(t, apply(namespace, binding(nil)), "what it does itself")
	for what, attempt := range map[string]struct {
		namespace, refusal string
		change             func(*rbacv1.RoleBinding)
	}{
		"a namespace that didn't opt in": {elsewhere, "isn't annotated", nil},
		"the cluster's own":              {metav1.NamespaceSystem, "isn't annotated", nil},
		"its own":                        {framework.SystemNamespace, "isn't annotated", nil},
		"somebody else": {namespace, "nothing to anybody but itself", func(b *rbacv1.RoleBinding) {
			b.Subjects[0] = rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "eve"}
		}},
		"somebody else, too": {namespace, "nothing to anybody but itself", func(b *rbacv1.RoleBinding) {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Name: "default", Namespace: elsewhere})
		}},
		"another name": {namespace, "is forbidden", func(b *rbacv1.RoleBinding) { b.Name = "another" }},
	} {
		err := apply(attempt.namespace, binding(attempt.change))
		require.True(t, apierrors.IsForbidden(err), "%s: %v", what, err)
		require.ErrorContains(t, err, attempt.refusal, what)
	}
	// Where the role isn't fixed yet.
	for _, role := range []string{"cluster-admin", "view"} {
		err := apply(elsewhere, binding(func(b *rbacv1.RoleBinding) { b.RoleRef.Name = role }))
		require.True(t, apierrors.IsForbidden(err), "%s: %v", role, err)
	}
	_, err := injector.RbacV1().RoleBindings(namespace).Create(t.Context(), binding(nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.True(t, apierrors.IsForbidden(err), "creating without a name in the URL: %v", err)
}

func TestWhoeverTakesTheInjectorOverCanNotOptNamespacesIn(t *testing.T) {
	t.Parallel()
	injector, namespace := asInjector(t), plainNamespace(t, "pod-security.kubernetes.io/enforce", "restricted")
	for what, patch := range map[string]string{
		"an annotation":              `{"metadata":{"annotations":{"` + pod.InjectAnnotation + `":"true"}}}`,
		"both":                       `{"metadata":{"annotations":{"` + pod.InjectAnnotation + `":"true"},"labels":{"` + pod.InjectAnnotation + `":"true"}}}`,
		"a label of others, gone":    `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":null}}}`,
		"a label of others, changed": `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`,
		"a label of others, new":     `{"metadata":{"labels":{"any":"label"}}}`,
		"a finalizer":                `{"metadata":{"finalizers":["any.example/finalizer"]}}`,
	} {
		_, err := injector.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		require.True(t, apierrors.IsForbidden(err), "%s: %v", what, err)
		require.ErrorContains(t, err, "labels.entrypointer.dev", what)
	}
	// Our webhook takes this one back before the policy sees it.
	labelled, err := injector.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+pod.InjectAnnotation+`":"true"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	require.NotContains(t, labelled.Labels, pod.InjectAnnotation)
}

func TestWhoeverTakesTheInjectorOverCanNotHaveMoreSentToIt(t *testing.T) {
	t.Parallel()
	injector := asInjector(t).AdmissionregistrationV1()
	dryRun := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
	mutating, err := injector.MutatingWebhookConfigurations().Get(t.Context(), framework.PodWebhook, metav1.GetOptions{})
	require.NoError(t, err)
	validating, err := injector.ValidatingWebhookConfigurations().Get(t.Context(), framework.ConfigWebhook, metav1.GetOptions{})
	require.NoError(t, err)

	renewed := mutating.DeepCopy()
	renewed.Webhooks[0].ClientConfig.CABundle = nil
	_, err = injector.MutatingWebhookConfigurations().Update(t.Context(), renewed, dryRun)
	require.NoError(t, err, "renewing the CA bundle")

	everywhere := mutating.DeepCopy()
	everywhere.Webhooks[0].NamespaceSelector = nil
	everything := mutating.DeepCopy()
	everything.Webhooks[0].Rules[0].Resources = []string{"*"}
	more := mutating.DeepCopy()
	more.Webhooks = append(more.Webhooks, *mutating.Webhooks[0].DeepCopy())
	more.Webhooks[len(more.Webhooks)-1].Name = "another.entrypointer.dev"
	for what, changed := range map[string]*admissionregistrationv1.MutatingWebhookConfiguration{
		"everywhere": everywhere, "everything": everything, "a webhook more": more,
	} {
		_, err = injector.MutatingWebhookConfigurations().Update(t.Context(), changed, dryRun)
		require.ErrorContains(t, err, "webhooks.entrypointer.dev", what)
	}

	secrets := validating.DeepCopy()
	secrets.Webhooks[0].Rules[0].Resources = []string{"secrets"}
	_, err = injector.ValidatingWebhookConfigurations().Update(t.Context(), secrets, dryRun)
	require.ErrorContains(t, err, "webhooks.entrypointer.dev")
}

// As it does when it starts.
func TestTheInjectorFindsItselfConfined(t *testing.T) {
	t.Parallel()
	require.NoError(t, namespaces.CheckConfinement(t.Context(), asInjector(t), framework.SystemNamespace))
	require.ErrorContains(t, namespaces.CheckConfinement(t.Context(), cluster.Kube, framework.SystemNamespace), "the injector could grant itself",
		"an administrator is somebody whom the policies don't name")
}

func TestWhoeverTakesTheInjectorOverCanNotHaveItsWebhooksDeleted(t *testing.T) {
	t.Parallel()
	injector := asInjector(t).AdmissionregistrationV1()
	before, err := injector.MutatingWebhookConfigurations().Get(t.Context(), framework.PodWebhook, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, before.OwnerReferences, 1, "the namespace owns it")
	for what, change := range map[string]func(*metav1.OwnerReference){
		"a namespace that is gone":  func(o *metav1.OwnerReference) { o.UID = "00000000-0000-0000-0000-000000000000" },
		"a namespace of a tenant's": func(o *metav1.OwnerReference) { o.Name = metav1.NamespaceDefault },
	} {
		owned := before.DeepCopy()
		change(&owned.OwnerReferences[0])
		_, err := injector.MutatingWebhookConfigurations().Update(t.Context(), owned, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		require.ErrorContains(t, err, "makes nothing but its namespace the owner", what)
	}
	dryRun := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	for _, name := range []string{framework.PodWebhook, framework.NamespaceWebhook} {
		require.ErrorContains(t, injector.MutatingWebhookConfigurations().Delete(t.Context(), name, dryRun), "only while its namespace is being deleted")
	}
	require.ErrorContains(t, injector.ValidatingWebhookConfigurations().Delete(t.Context(), framework.ConfigWebhook, dryRun), "only while its namespace is being deleted")
}

func TestWhoeverTakesTheInjectorOverCanNotWriteEventsInTheNameOfOthers(t *testing.T) {
	t.Parallel()
	injector, elsewhere, namespace := asInjector(t), plainNamespace(t), optedInNamespace(t)
	write := func(namespace, component, kind, about string) error {
		e := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: "e2e-", Namespace: namespace},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: kind, Name: about},
			Source:         corev1.EventSource{Component: component}, ReportingController: component,
			Type: corev1.EventTypeWarning, Reason: "Any", Message: "any",
		}
		if kind != "Namespace" {
			e.InvolvedObject.Namespace = namespace
		}
		_, err := injector.CoreV1().Events(namespace).Create(t.Context(), e, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	eventually(t, time.Minute, "the API server to see the annotation", func() error {
		return write(namespace, "entrypointer", "Pod", "any")
	})
	require.NoError(t, write(metav1.NamespaceDefault, "entrypointer", "Namespace", elsewhere))
	require.ErrorContains(t, write(elsewhere, "entrypointer", "Pod", "any"), "isn't annotated")
	require.ErrorContains(t, write(metav1.NamespaceDefault, "entrypointer", "Pod", "any"), "isn't annotated")
	require.ErrorContains(t, write(metav1.NamespaceSystem, "entrypointer", "Pod", "any"), "isn't annotated")
	require.ErrorContains(t, write(namespace, "kubelet", "Pod", "any"), "whose source is entrypointer")
}

func TestAGrantThatSomebodyDeletesOrChangesIsRepaired(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	waitForGrant(t, namespace, true)
	bindings := cluster.Kube.RbacV1().RoleBindings(namespace)

	before, err := bindings.Get(t.Context(), namespaces.GrantName, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, bindings.Delete(t.Context(), namespaces.GrantName, metav1.DeleteOptions{}))
	waitForBinding(t, namespace, func(b *rbacv1.RoleBinding) bool { return b.UID != before.UID })

	_, err = bindings.Patch(t.Context(), namespaces.GrantName, types.MergePatchType, []byte(`{"subjects":[]}`), metav1.PatchOptions{})
	require.NoError(t, err)
	waitForBinding(t, namespace, func(b *rbacv1.RoleBinding) bool { return len(b.Subjects) == 1 })
	waitForGrant(t, namespace, true)
}

func waitForBinding(t *testing.T, namespace string, asWanted func(*rbacv1.RoleBinding) bool) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("the RoleBinding in namespace %q to be repaired", namespace), func() error {
		b, err := cluster.Kube.RbacV1().RoleBindings(namespace).Get(t.Context(), namespaces.GrantName, metav1.GetOptions{})
		if err == nil && !asWanted(b) {
			return fmt.Errorf("it is %+v", b)
		}
		return err
	})
}

func TestARoleBindingThatIsInTheWayIsLeftAloneAndReported(t *testing.T) {
	t.Parallel()
	namespace := plainNamespace(t)
	bindings := cluster.Kube.RbacV1().RoleBindings(namespace)
	_, err := bindings.Create(t.Context(), binding(func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "view" }), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = annotate(t.Context(), namespace, `"true"`)
	require.NoError(t, err)
	eventually(t, time.Minute, "an event that says what is in the way", func() error {
		// Events of what has no namespace are in this one.
		events, err := cluster.Kube.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{
			FieldSelector: "reason=LookupNotGranted,involvedObject.kind=Namespace,involvedObject.name=" + namespace,
		})
		if err == nil && len(events.Items) == 0 {
			return errors.New("there is none")
		}
		if err == nil && !strings.Contains(events.Items[0].Message, `binds ClusterRole "view"; delete it`) {
			return framework.Permanent(fmt.Errorf("it says %q", events.Items[0].Message))
		}
		return err
	})
	there, err := bindings.Get(t.Context(), namespaces.GrantName, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "view", there.RoleRef.Name)
	require.False(t, can(t, "get", "secrets/any", "-n", namespace))

	// What the event says to do helps.
	require.NoError(t, bindings.Delete(t.Context(), namespaces.GrantName, metav1.DeleteOptions{}))
	waitForGrant(t, namespace, true)
}

func TestWhoeverTakesTheInjectorOverCanRunNothingButCanaries(t *testing.T) {
	t.Parallel()
	injector := asInjector(t).CoreV1()
	d, err := cluster.Kube.AppsV1().Deployments(framework.SystemNamespace).Get(t.Context(), framework.Injector, metav1.GetOptions{})
	require.NoError(t, err)
	args := d.Spec.Template.Spec.Containers[0].Args
	ours := autodelivery.Images{Entrypoint: args[slices.Index(args, "-entrypoint-image")+1], WithLogs: args[slices.Index(args, "-entrypoint-with-logs-image")+1]}
	apply := func(namespace string, change func(*corev1.Pod)) error {
		p := autodelivery.Canary(autodelivery.Canaries[0], ours)
		p.Namespace = namespace
		if change != nil {
			change(p)
		}
		_, err := injector.Pods(namespace).Patch(t.Context(), p.Name, types.ApplyPatchType, encode(t, p),
			metav1.PatchOptions{FieldManager: "e2e", Force: new(true), DryRun: []string{metav1.DryRunAll}})
		return err
	}
	require.NoError(t, apply(framework.SystemNamespace, nil), "what it does itself")
	for what, change := range map[string]func(*corev1.Pod){
		"another name":        func(p *corev1.Pod) { p.Name = "another" },
		"another image":       func(p *corev1.Pod) { p.Spec.Containers[0].Image = busybox(t, "main").Image },
		"another command":     func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"--", "sh"} },
		"a token":             func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) },
		"the injector's":      func(p *corev1.Pod) { p.Spec.ServiceAccountName = framework.Injector },
		"the webhook's label": func(p *corev1.Pod) { p.Labels["app.kubernetes.io/name"] = "injector" },
		"a secret": func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "entrypointer-webhook-certs"}}
		},
		"no end": func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil },
	} {
		err := apply(framework.SystemNamespace, change)
		require.True(t, apierrors.IsForbidden(err), "%s: %v", what, err)
	}
	for _, elsewhere := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		require.True(t, apierrors.IsForbidden(apply(elsewhere, nil)), elsewhere)
	}
	_, err = injector.Pods(framework.SystemNamespace).Create(t.Context(), autodelivery.Canary(autodelivery.Canaries[0], ours), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.True(t, apierrors.IsForbidden(err), "creating without a name in the URL: %v", err)
}
