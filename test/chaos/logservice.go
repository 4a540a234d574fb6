// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// logServiceProgram is the log service, as ko names it.
	logServiceProgram = "/ko-app/logs"
	logSelector       = "app.kubernetes.io/name=" + framework.LogService
	// logDirectory is where its volume is, and unfinished where each new file is first.
	logDirectory = "/var/lib/logs"
	unfinished   = logDirectory + "/unfinished"
)

func logService(ctx context.Context, e *environment) ([]corev1.Pod, error) {
	return podsOf(ctx, e.cluster, endpoint.Namespace, logSelector)
}

// logProcess returns the process of the log service.
func logProcess(ctx context.Context, e *environment) (process, error) {
	pods, err := logService(ctx, e)
	if err != nil {
		return process{}, err
	}
	processes, err := processesOf(ctx, pods[0], logServiceProgram)
	if err != nil {
		return process{}, err
	}
	return processes[0], nil
}

func killLogService(ctx context.Context, e *environment) (healer, error) {
	pods, err := logService(ctx, e)
	if err != nil {
		return nil, err
	}
	return nil, signalContainers(ctx, pods, logServiceProgram, unix.SIGKILL)
}

func removeLogService(ctx context.Context, e *environment) (healer, error) {
	return func(ctx context.Context) error {
		return e.cluster.Scale(ctx, endpoint.Namespace, framework.LogService, 1)
	}, e.cluster.Scale(ctx, endpoint.Namespace, framework.LogService, 0)
}

func stallLogService(ctx context.Context, e *environment) (healer, error) {
	p, err := logProcess(ctx, e)
	if err != nil {
		return nil, err
	}
	return p.stall(ctx)
}

// slowLogService lets the service run for a tenth of each second.
func slowLogService(ctx context.Context, e *environment) (healer, error) {
	p, err := logProcess(ctx, e)
	if err != nil {
		return nil, err
	}
	loop := fmt.Sprintf("(while kill -STOP %[1]d && sleep 0.9 && kill -CONT %[1]d; do sleep 0.1; done) >/dev/null 2>&1 & loop=$!", p.pid)
	return guarded(ctx, loop, fmt.Sprintf("kill $loop; kill -CONT %d 2>/dev/null || true", p.pid), nil)
}

// refuseStore takes the right to create files from the service. The kernel refuses them, as
// a volume does that is read-only after an error of its disk.
func refuseStore(ctx context.Context, e *environment) (healer, error) {
	p, err := logProcess(ctx, e)
	if err != nil {
		return nil, err
	}
	directory, err := p.open("root" + unfinished)
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	is, err := directory.Stat()
	if err != nil {
		return nil, err
	}
	return guarded(ctx, "chmod 0555 /proc/self/fd/3", fmt.Sprintf("chmod %04o /proc/self/fd/3", is.Mode().Perm()), directory)
}

// smallVolume is how many bytes the volume has in the place of the service's own one.
const smallVolume = "32Mi"

// useSmallVolume gives the log service another volume, in memory.
func useSmallVolume(ctx context.Context, e *environment) (healer, error) {
	deployments := e.cluster.Kube.AppsV1().Deployments(endpoint.Namespace)
	before, err := deployments.Get(ctx, framework.LogService, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the log service's Deployment: %w", err)
	}
	own := before.Spec.Template.Spec.Volumes[0]
	if own.PersistentVolumeClaim == nil {
		return nil, fmt.Errorf("giving the log service a small volume: its volume %q is no claim", own.Name)
	}
	use := func(ctx context.Context, source string) error {
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/volumes/0","value":{"name":%q,%s}}]`, own.Name, source)
		if _, err := deployments.Patch(ctx, framework.LogService, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("changing the log service's volume: %w", err)
		}
		if err := e.cluster.WaitForDeployment(ctx, endpoint.Namespace, framework.LogService); err != nil {
			return err
		}
		_, err := e.cluster.LogServicePod(ctx)
		return err
	}
	return func(ctx context.Context) error {
		return use(ctx, fmt.Sprintf(`"persistentVolumeClaim":{"claimName":%q}`, own.PersistentVolumeClaim.ClaimName))
	}, use(ctx, fmt.Sprintf(`"emptyDir":{"medium":"Memory","sizeLimit":%q}`, smallVolume))
}

// fillVolume writes a file until the volume is full, and deletes it in the end. Of a block of
// the file system, what is stored can take the rest.
func fillVolume(ctx context.Context, e *environment) (healer, error) {
	p, err := logProcess(ctx, e)
	if err != nil {
		return nil, err
	}
	directory, err := p.open("root" + logDirectory)
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	var space unix.Statfs_t
	if err := unix.Fstatfs(int(directory.Fd()), &space); err != nil {
		return nil, fmt.Errorf("asking for the space of the log service's volume: %w", err)
	}
	const most = 1 << 18 // blocks of 4 KiB are a gibibyte
	if space.Blocks > most {
		return nil, fmt.Errorf("filling the log service's volume: it has %d blocks, so it isn't the small one", space.Blocks)
	}
	const filler = "/proc/self/fd/3/filler-of-chaos"
	return guarded(ctx, "! cat /dev/zero >"+filler+" 2>/dev/null", "rm "+filler, directory)
}
