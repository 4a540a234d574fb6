// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/reconciler"
)

// world is a cluster whose caches are always up to date.
type world struct {
	t      *testing.T
	client *fake.Clientset
	// uncallable says that API servers can't call the webhook for pods yet.
	uncallable bool
}

// newWorld has these objects, and the injector's own namespace.
func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset()}
	for _, object := range objects {
		require.NoError(t, w.client.Tracker().Add(object.DeepCopyObject()))
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own, UID: "uid-of-" + own}}
	if err := w.client.Tracker().Add(system); err != nil && !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	return w
}

func (w *world) reconcile(namespace string) error {
	w.t.Helper()
	return w.follower().ReconcileKind(w.t.Context(), w.namespace(namespace))
}

func (w *world) follower() *follower {
	w.t.Helper()
	namespaces, err := w.client.CoreV1().Namespaces().List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	bindings, err := w.client.RbacV1().RoleBindings("").List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	knownNamespaces, knownBindings := newIndexer(), cache.NewIndexer(cache.MetaNamespaceKeyFunc, grantIndexers)
	for i := range namespaces.Items {
		require.NoError(w.t, knownNamespaces.Add(slimmed(w.t, slimNamespace(), &namespaces.Items[i])))
	}
	for i := range bindings.Items {
		require.NoError(w.t, knownBindings.Add(slimmed(w.t, slimBinding(), &bindings.Items[i])))
	}
	return &follower{
		rule:     newRule(own),
		callable: func() bool { return !w.uncallable },
		labels:   labels{client: w.client},
		grants: grants{
			client: w.client, own: own,
			namespaces: corelisters.NewNamespaceLister(knownNamespaces),
			bindings:   rbaclisters.NewRoleBindingLister(knownBindings),
		},
	}
}

func newIndexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func (w *world) namespace(name string) *corev1.Namespace {
	w.t.Helper()
	ns, err := w.client.CoreV1().Namespaces().Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return ns
}

// binding is the namespace's RoleBinding of our name, or nil.
func (w *world) binding(namespace string) *rbacv1.RoleBinding {
	w.t.Helper()
	binding, err := w.client.RbacV1().RoleBindings(namespace).Get(w.t.Context(), GrantName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return binding
}

// writes are what was written since the actions were cleared.
func (w *world) writes() (writes []clienttesting.Action) {
	for _, action := range w.client.Actions() {
		switch action.GetVerb() {
		case "get", "list", "watch":
		default:
			writes = append(writes, action)
		}
	}
	return writes
}

// fail lets patches of RoleBindings fail, so many times.
func (w *world) fail(times int, err error) {
	w.client.PrependReactor("patch", "rolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
		if times--; times >= 0 {
			return true, nil, err
		}
		return false, nil, nil
	})
}

func requireWarning(t *testing.T, event error, reason, says string) {
	t.Helper()
	var warning *reconciler.ReconcilerEvent
	require.True(t, reconciler.EventAs(event, &warning), "%v", event)
	require.Equal(t, corev1.EventTypeWarning, warning.EventType)
	require.Equal(t, reason, warning.Reason)
	require.Contains(t, warning.Error(), says)
}

func requireGranted(t *testing.T, binding *rbacv1.RoleBinding) {
	t.Helper()
	require.NotNil(t, binding)
	require.Equal(t, rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "entrypointer-lookup"}, binding.RoleRef)
	require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "injector", Namespace: own}}, binding.Subjects)
	require.Contains(t, binding.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: own, UID: "uid-of-" + own},
		"it goes when the injector's namespace goes")
	require.Equal(t, "entrypointer", binding.Labels["app.kubernetes.io/part-of"])
}

func optedInNamespace() *corev1.Namespace { return namespace("a", new("true"), new("true")) }

func TestANamespaceThatOptsInGetsTheGrantAndLosesItWhenItOptsOut(t *testing.T) {
	w := newWorld(t, namespace("a", new("true"), nil))
	require.NoError(t, w.reconcile("a"))
	requireGranted(t, w.binding("a"))

	ns := w.namespace("a")
	delete(ns.Annotations, labelKey)
	require.NoError(t, w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("namespaces"), ns, ""))
	require.NoError(t, w.reconcile("a"))
	require.Nil(t, w.binding("a"))
}

func TestAChangedGrantIsRepaired(t *testing.T) {
	for what, change := range map[string]func(*rbacv1.RoleBinding){
		"no subject": func(b *rbacv1.RoleBinding) { b.Subjects = nil },
		"one subject more": func(b *rbacv1.RoleBinding) {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "User", Name: "eve"})
		},
		"no owner":                func(b *rbacv1.RoleBinding) { b.OwnerReferences = nil },
		"a former namespace's":    func(b *rbacv1.RoleBinding) { b.OwnerReferences[0].UID = "uid-of-before" },
		"no label to find it by":  func(b *rbacv1.RoleBinding) { b.Labels = nil },
		"a foreign label":         func(b *rbacv1.RoleBinding) { b.Labels["app.kubernetes.io/part-of"] = "else" },
		"subject of another name": func(b *rbacv1.RoleBinding) { b.Subjects[0].Namespace = "elsewhere" },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, optedInNamespace())
			require.NoError(t, w.reconcile("a"))
			binding := w.binding("a")
			change(binding)
			_, err := w.client.RbacV1().RoleBindings("a").Update(t.Context(), binding, metav1.UpdateOptions{})
			require.NoError(t, err)
			require.NoError(t, w.reconcile("a"))
			requireGranted(t, w.binding("a"))
		})
	}
}

func TestForeignAdditionsToAGrantStay(t *testing.T) {
	w := newWorld(t, optedInNamespace())
	require.NoError(t, w.reconcile("a"))
	binding := w.binding("a")
	binding.Labels["team"] = "blue"
	_, err := w.client.RbacV1().RoleBindings("a").Update(t.Context(), binding, metav1.UpdateOptions{})
	require.NoError(t, err)
	w.client.ClearActions()
	require.NoError(t, w.reconcile("a"))
	require.Empty(t, w.writes())
}

// The role of a RoleBinding can't be changed, so one with another role was
// never ours.
func TestAForeignRoleBindingOfTheSameNameIsLeftAloneAndReported(t *testing.T) {
	theirs := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: GrantName, Namespace: "a"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "of-a-tenant"},
	}
	w := newWorld(t, optedInNamespace(), theirs)
	requireWarning(t, w.reconcile("a"), "LookupNotGranted", `binds Role "of-a-tenant"; delete it, or set command:`)
	require.Empty(t, w.writes())

	ns := w.namespace("a")
	ns.Annotations, ns.Labels = nil, nil
	require.NoError(t, w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("namespaces"), ns, ""))
	require.NoError(t, w.reconcile("a"))
	require.Empty(t, w.writes(), "opting out doesn't make it ours")
	require.Equal(t, "of-a-tenant", w.binding("a").RoleRef.Name)
}

func TestANamespaceThatIsBeingDeletedIsNoError(t *testing.T) {
	terminating := apierrors.NewForbidden(rbacv1.Resource("rolebindings"), GrantName, errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for what, err := range map[string]error{
		"terminating": terminating,
		"gone":        apierrors.NewNotFound(corev1.Resource("namespaces"), "a"),
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, optedInNamespace())
			w.fail(1000, err)
			require.NoError(t, w.reconcile("a"))
			require.Len(t, w.writes(), 1, "trying again is of no use")
		})
	}
}

// config/webhook/210-confine-injector.yaml looks at the API server's own cache of namespaces.
func TestAnAPIServerThatHasNotHeardYetOfTheOptInIsAskedAgain(t *testing.T) {
	w := newWorld(t, optedInNamespace())
	w.fail(2, apierrors.NewForbidden(rbacv1.Resource("rolebindings"), GrantName, errors.New("not opted in")))
	require.NoError(t, w.reconcile("a"))
	requireGranted(t, w.binding("a"))
}

func TestAGrantThatIsRefusedForGoodIsAnError(t *testing.T) {
	w := newWorld(t, optedInNamespace())
	w.fail(1000, apierrors.NewForbidden(rbacv1.Resource("rolebindings"), GrantName, errors.New("no such right")))
	require.ErrorContains(t, w.reconcile("a"), `applying RoleBinding "entrypointer-lookup" in namespace "a"`)
}

func TestAGrantThatWasReplacedMeanwhileIsNotDeleted(t *testing.T) {
	ours := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: GrantName, Namespace: "a", UID: "known"}, RoleRef: grantedRole}
	w := newWorld(t, namespace("a", nil, nil), ours)
	w.client.PrependReactor("delete", "rolebindings", func(action clienttesting.Action) (bool, runtime.Object, error) {
		require.Equal(t, new(types.UID("known")), action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions.UID)
		return true, nil, apierrors.NewConflict(rbacv1.Resource("rolebindings"), GrantName, errors.New("the UID is another"))
	})
	require.NoError(t, w.reconcile("a"))
}

func TestAnInjectorThatNoPolicyConfinesNotices(t *testing.T) {
	bindings := schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}
	for what, test := range map[string]struct {
		answer error
		says   string
	}{
		"confined":       {apierrors.NewForbidden(bindings, GrantName, errors.New("ValidatingAdmissionPolicy 'grants.entrypointer.dev' denied request")), ""},
		"open":           {nil, "the injector could grant itself the secrets"},
		"without rights": {apierrors.NewForbidden(bindings, GrantName, errors.New("cannot patch")), "checking whether policies confine the injector"},
		"unreachable":    {errors.New("no route to host"), "no route to host"},
	} {
		t.Run(what, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("patch", "rolebindings", func(action clienttesting.Action) (bool, runtime.Object, error) {
				patch := action.(clienttesting.PatchActionImpl)
				require.Equal(t, own, patch.GetNamespace())
				require.Equal(t, []string{metav1.DryRunAll}, patch.PatchOptions.DryRun, "it is never granted")
				return true, &rbacv1.RoleBinding{}, test.answer
			})
			err := CheckConfinement(t.Context(), client, own)
			if test.says == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.says)
			}
		})
	}
}

// A replica that begins to lead, and the informers' resync, look at all namespaces.
func TestANamespaceIsReconciledOnlyIfSomethingIsNotAsWanted(t *testing.T) {
	foreign := func(name string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: GrantName, Namespace: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "of-a-tenant"}}
	}
	grant := func(name string) *rbacv1.RoleBinding {
		return grantOf(metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: own, UID: "uid-of-" + own}, own, name)
	}
	changed := grant("in-with-a-changed-grant")
	changed.Subjects = nil
	concerned := []*corev1.Namespace{
		namespace("in-without-label", new("true"), nil), namespace("in-without-grant", new("true"), new("true")), namespace("in-with-a-changed-grant", new("true"), new("true")),
		namespace("in-with-another-label", new("all"), new("true")), namespace("in-with-a-foreign-grant", new("true"), new("true")),
		namespace("out-with-label", nil, new("true")), namespace("out-with-grant", nil, nil), namespace("with-a-mistake", new("wrong"), nil),
	}
	settled := []*corev1.Namespace{
		namespace("in", new("true"), new("true")), namespace("plain", nil, nil), namespace("out-with-a-foreign-grant", nil, nil), namespace("out", new("false"), nil),
	}
	objects := []runtime.Object{
		grant("in-without-label"), grant("in-with-another-label"), changed, foreign("in-with-a-foreign-grant"), grant("out-with-label"), grant("out-with-grant"),
		grant("in"), foreign("out-with-a-foreign-grant"),
	}
	for _, ns := range slices.Concat(concerned, settled) {
		objects = append(objects, ns)
	}
	f := newWorld(t, objects...).follower()
	for _, ns := range concerned {
		require.True(t, f.concerns(ns), ns.Name)
		require.True(t, f.concernsNamespaceOf(grant(ns.Name)), ns.Name)
	}
	for _, ns := range settled {
		require.False(t, f.concerns(ns), ns.Name)
		require.False(t, f.concernsNamespaceOf(grant(ns.Name)), ns.Name)
	}
	require.True(t, f.concerns(cache.DeletedFinalStateUnknown{Key: "deleted"}))
	require.True(t, f.concernsNamespaceOf(cache.DeletedFinalStateUnknown{Key: "deleted"}))
	require.True(t, f.concernsNamespaceOf(grant("unknown")), "its namespace isn't in the cache yet")
}

func TestWhatExistsAtTheStartIsLeftToTheReplicaThatBeginsToLead(t *testing.T) {
	var done []any
	handler := cache.FilteringResourceEventHandler{FilterFunc: func(object any) bool { return object != "settled" }, Handler: changes(func(object any) { done = append(done, object) })}
	handler.OnAdd("exists", true)
	handler.OnAdd("new", false)
	handler.OnUpdate("before", "after")
	handler.OnUpdate("settled", "unsettled")
	handler.OnUpdate("was unsettled", "settled")
	handler.OnUpdate("settled", "settled")
	handler.OnDelete("gone")
	require.Equal(t, []any{"new", "after", "unsettled", "was unsettled", "gone"}, done)
}
