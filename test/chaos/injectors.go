// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

// injectorProgram is the injector, as ko names it.
const injectorProgram = "/ko-app/injector"

func injectors(ctx context.Context, e *environment) ([]corev1.Pod, error) {
	return podsOf(ctx, e.cluster, framework.SystemNamespace, framework.InjectorSelector)
}

func killInjectors(ctx context.Context, e *environment) (healer, error) {
	pods, err := injectors(ctx, e)
	if err != nil {
		return nil, err
	}
	return nil, signalContainers(ctx, pods, injectorProgram, unix.SIGKILL)
}

func killInjectorsInTurn(ctx context.Context, e *environment) (healer, error) {
	return nil, killInjectorsOneByOne(ctx, e)
}

// killInjectorsOneByOne kills the next one when all are ready.
func killInjectorsOneByOne(ctx context.Context, e *environment) error {
	pods, err := injectors(ctx, e)
	if err != nil {
		return err
	}
	for i := range pods {
		if err := e.cluster.WaitForInjector(ctx); err != nil {
			return err
		}
		if err := e.killInjector(ctx, pods[i]); err != nil {
			return err
		}
		// The kubelet sees that it has ended.
		before := restarts(&pods[i])
		err := framework.Eventually(ctx, time.Minute, "the injector to be restarted", func(ctx context.Context) error {
			p, err := e.cluster.Kube.CoreV1().Pods(pods[i].Namespace).Get(ctx, pods[i].Name, metav1.GetOptions{})
			if err == nil && restarts(p) == before {
				return errors.New("it isn't")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// killInjector kills an injector while others run.
func (e *environment) killInjector(ctx context.Context, p corev1.Pod) error {
	e.kills = append(e.kills, time.Now())
	return signalContainers(ctx, []corev1.Pod{p}, injectorProgram, unix.SIGKILL)
}

func restarts(p *corev1.Pod) (count int32) {
	for _, s := range p.Status.ContainerStatuses {
		count += s.RestartCount
	}
	return count
}

// evictInjectors evicts each injector when the PodDisruptionBudget allows it, as kubectl drain
// does. Where pods have other nodes, theirs is cordoned meanwhile.
func evictInjectors(ctx context.Context, e *environment) (healer, error) {
	pods, err := injectors(ctx, e)
	if err != nil {
		return nil, err
	}
	var cordoned []string
	heal := func(ctx context.Context) error {
		var errs []error
		for _, node := range cordoned {
			_, err := framework.Run(ctx, "kubectl", "uncordon", node)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	for i := range pods {
		if e.workers > 1 && i == 0 {
			cordoned = append(cordoned, pods[i].Spec.NodeName)
			if _, err := framework.Run(ctx, "kubectl", "cordon", pods[i].Spec.NodeName); err != nil {
				return heal, err
			}
		}
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pods[i].Namespace, Name: pods[i].Name}}
		err := framework.Eventually(ctx, 2*time.Minute, "the injector to be evicted", func(ctx context.Context) error {
			return e.cluster.Kube.CoreV1().Pods(eviction.Namespace).EvictV1(ctx, eviction)
		})
		if err != nil {
			return heal, err
		}
	}
	return heal, e.cluster.WaitForDeployment(ctx, framework.SystemNamespace, framework.Injector)
}

func deleteNamespace(ctx context.Context, e *environment) (healer, error) {
	spaces := e.cluster.Kube.CoreV1().Namespaces()
	heal := func(ctx context.Context) error {
		err := framework.Eventually(ctx, 3*time.Minute, "the injector's namespace to be gone", func(ctx context.Context) error {
			_, err := spaces.Get(ctx, framework.SystemNamespace, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err == nil:
				return errors.New("it is there")
			default:
				return err
			}
		})
		if err != nil {
			return err
		}
		_, err = framework.Run(ctx, "hack/deploy.sh", "ko")
		return err
	}
	return heal, spaces.Delete(ctx, framework.SystemNamespace, metav1.DeleteOptions{})
}
