// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// volumeOwner is the user that ko's images run as: a hostPath isn't given to a pod's fsGroup.
const volumeOwner = 65532

// volumeNames are as many as one may install the log service from one "up" to the next.
var volumeNames = []string{"logs-1", "logs-2", "logs-3", "logs-4"}

// A volume is a directory of the node.
type volume struct{ Name, Path string }

// provideVolumes makes volumes that aren't there, and those anew whose claim is gone.
func provideVolumes(ctx context.Context, l layout.Layout) error {
	out, err := kubectl(ctx, l, "", "get", "persistentvolumes", "--output=json")
	if err != nil {
		return err
	}
	there, released, err := whichVolumes(out)
	if err != nil {
		return err
	}
	var missing []volume
	for _, name := range volumeNames {
		if slices.Contains(released, name) {
			if _, err := kubectl(ctx, l, "", "delete", "persistentvolume", name); err != nil {
				return err
			}
		} else if slices.Contains(there, name) {
			continue
		}
		v := volume{Name: name, Path: l.Data("volumes", name)}
		if err := v.makeAnew(); err != nil {
			return err
		}
		missing = append(missing, v)
	}
	if len(missing) == 0 {
		return nil
	}
	objects, err := ownYAML("volumes.yaml", settings{Volumes: missing})
	if err != nil {
		return err
	}
	text, err := render(objects)
	if err != nil {
		return err
	}
	return apply(ctx, l, text)
}

// whichVolumes reads what kubectl says.
func whichVolumes(list []byte) (there, released []string, err error) {
	var volumes struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Phase string }
		}
	}
	if err := json.Unmarshal(list, &volumes); err != nil {
		return nil, nil, fmt.Errorf("reading what kubectl says about volumes: %w", err)
	}
	for _, v := range volumes.Items {
		there = append(there, v.Metadata.Name)
		if v.Status.Phase == "Released" || v.Status.Phase == "Failed" {
			released = append(released, v.Metadata.Name)
		}
	}
	return there, released, nil
}

// makeAnew makes the directory, empty.
func (v volume) makeAnew() error {
	if err := os.RemoveAll(v.Path); err != nil {
		return fmt.Errorf("emptying volume %q: %w", v.Name, err)
	}
	if err := os.MkdirAll(v.Path, 0o755); err != nil {
		return fmt.Errorf("making volume %q: %w", v.Name, err)
	}
	if err := os.Chown(v.Path, volumeOwner, volumeOwner); err != nil {
		return fmt.Errorf("giving volume %q to user %d: %w", v.Name, volumeOwner, err)
	}
	return nil
}
