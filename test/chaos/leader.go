// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/namespaces"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// manyNamespaces is how many are created for the leader to have work.
	manyNamespaces = 12
	// leaderTries is how often that is tried, because the leader may be faster than we are.
	leaderTries = 5
	// ofLeaderLabel is on these namespaces.
	ofLeaderLabel = "chaos.example.test/of-leader"
)

var ofLeader = metav1.ListOptions{LabelSelector: ofLeaderLabel}

// killLeader stops the leader when it has written the first of many grants, and kills it if
// the last one isn't written. So it dies in the middle.
func killLeader(ctx context.Context, e *environment) (healer, error) {
	leader, err := leaderOf(ctx, e, "namespaces.follower")
	if err != nil {
		return nil, err
	}
	for try := range leaderTries {
		done, err := e.killAmidGrants(ctx, leader, try)
		if done || err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("killing the leader, pod %q: it had written all grants each of %d times", leader.Name, leaderTries)
}

func (e *environment) killAmidGrants(ctx context.Context, leader corev1.Pod, try int) (killed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	watch, err := e.cluster.Kube.RbacV1().RoleBindings("").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + namespaces.GrantName})
	if err != nil {
		return false, fmt.Errorf("watching grants: %w", err)
	}
	defer watch.Stop()
	prefix := fmt.Sprintf("chaos-leader-%d-", try)
	var creating errgroup.Group
	for range manyNamespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			GenerateName: prefix, Labels: map[string]string{ofLeaderLabel: ""}, Annotations: map[string]string{pod.InjectAnnotation: "true"},
		}}
		creating.Go(func() error {
			_, err := e.cluster.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
			return err
		})
	}
	for event := range watch.ResultChan() {
		if o, ok := event.Object.(metav1.Object); ok && strings.HasPrefix(o.GetNamespace(), prefix) {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("waiting for the first grant of many: %w", err)
	}
	if err := signalContainers(ctx, []corev1.Pod{leader}, injectorProgram, unix.SIGSTOP); err != nil {
		return false, err
	}
	// What is under way arrives.
	err = errors.Join(creating.Wait(), wait(ctx, lookEvery))
	if err != nil {
		return false, errors.Join(err, signalContainers(ctx, []corev1.Pod{leader}, injectorProgram, unix.SIGCONT))
	}
	granted, err := e.isGranted(ctx)
	if granted || err != nil {
		return false, errors.Join(err, signalContainers(ctx, []corev1.Pod{leader}, injectorProgram, unix.SIGCONT))
	}
	return true, e.killInjector(ctx, leader)
}

// isGranted says whether each of the leader's namespaces has its label and its grant.
func (e *environment) isGranted(ctx context.Context) (bool, error) {
	spaces, err := e.cluster.Kube.CoreV1().Namespaces().List(ctx, ofLeader)
	if err != nil {
		return false, fmt.Errorf("listing the namespaces for the leader: %w", err)
	}
	grants, err := e.cluster.Kube.RbacV1().RoleBindings("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + namespaces.GrantName})
	if err != nil {
		return false, fmt.Errorf("listing grants: %w", err)
	}
	granted := map[string]bool{}
	for i := range grants.Items {
		granted[grants.Items[i].Namespace] = true
	}
	for i := range spaces.Items {
		ns := &spaces.Items[i]
		if ns.DeletionTimestamp == nil && (ns.Labels[pod.InjectAnnotation] != "true" || !granted[ns.Name]) {
			return false, nil
		}
	}
	return len(spaces.Items) >= manyNamespaces, nil
}

// requireGrants is an error as long as the next leader hasn't written the rest.
func requireGrants(ctx context.Context, e *environment) error {
	granted, err := e.isGranted(ctx)
	if err == nil && !granted {
		err = errors.New("a namespace lacks its label or its grant")
	}
	return err
}

// tidyUpAfterLeader deletes these namespaces in the end.
func tidyUpAfterLeader(_ context.Context, e *environment) (healer, error) {
	return e.deleteOfLeader, nil
}

func (e *environment) deleteOfLeader(ctx context.Context) error {
	spaces, err := e.cluster.Kube.CoreV1().Namespaces().List(ctx, ofLeader)
	if err != nil {
		return fmt.Errorf("listing the namespaces for the leader: %w", err)
	}
	var errs []error
	for i := range spaces.Items {
		err := e.cluster.Kube.CoreV1().Namespaces().Delete(ctx, spaces.Items[i].Name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leaderOf returns the replica that leads the controller whose lease has this in its name.
func leaderOf(ctx context.Context, e *environment, controller string) (leader corev1.Pod, err error) {
	leases, err := e.cluster.Kube.CoordinationV1().Leases(framework.SystemNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return leader, fmt.Errorf("looking for the leader: %w", err)
	}
	pods, err := injectors(ctx, e)
	if err != nil {
		return leader, err
	}
	for _, lease := range leases.Items {
		if !strings.Contains(lease.Name, controller) || lease.Spec.HolderIdentity == nil {
			continue
		}
		for _, p := range pods {
			if strings.HasPrefix(*lease.Spec.HolderIdentity, p.Name+"_") {
				return p, nil
			}
		}
	}
	return leader, fmt.Errorf("looking for the leader: no lease of %d whose name has %q is held by one of %d injectors", len(leases.Items), controller, len(pods))
}
