// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"context"
	"slices"

	"github.com/entrypointer/entrypointer/internal/target"
)

// A Command is a command of the supervisor that is sent to containers.
type Command struct {
	// Words are the command and its arguments.
	Words []string
	// Container restricts it to containers of this name, "" for all.
	Container string
	// Phases are those of the supervisors that are told.
	Phases []string
}

// A Told is a container that was told something.
type Told struct {
	Pod, Container string
	Err            error
}

// Tell tells the supervisors of an object's pods to do something. It returns which, and the
// statuses by which they were chosen.
func (r *Reader) Tell(ctx context.Context, t target.Target, command Command) (told []Told, report *Report, err error) {
	if report, err = r.Read(ctx, t); err != nil {
		return nil, nil, err
	}
	for _, p := range report.Pods {
		for _, c := range p.Containers {
			if c.Supervisor == nil || !slices.Contains(command.Phases, c.Supervisor.Phase) || command.Container != "" && c.Name != command.Container {
				continue
			}
			told = append(told, Told{p.Name, c.Name, r.tell(ctx, p.Name, c.Name, command.Words)})
		}
	}
	return told, report, nil
}

func (r *Reader) tell(ctx context.Context, pod, container string, words []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := r.exec(ctx, pod, container, words...)
	return err
}
