// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// MaxLabels bounds the labels of a stream.
const MaxLabels = 8

// ErrNoLabel says that streams can't have a label.
var ErrNoLabel = errors.New("logs can't be listed by this label")

// CheckLabel returns ErrNoLabel unless streams can have a label.
func CheckLabel(key, value string) error {
	if !slices.Contains(loglabels.All(), key) {
		return fmt.Errorf("label %.100q: %w: use one of %s", key, ErrNoLabel, strings.Join(loglabels.All(), ", "))
	}
	wrong := validation.IsValidLabelValue(value)
	if value == "" {
		wrong = []string{"it is empty"}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("label %s with value %.100q: %w: %s", key, value, ErrNoLabel, strings.Join(wrong, "; "))
	}
	return nil
}

// checkLabels returns ErrNoLabel unless a stream can have these labels.
func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("%d labels, more than %d: %w", len(labels), MaxLabels, ErrNoLabel)
	}
	for key, value := range labels {
		if err := CheckLabel(key, value); err != nil {
			return err
		}
	}
	return nil
}

// labelDirectory returns the directory of the index for a label. It has an empty object
// for each stream, whose name is the ID.
func labelDirectory(namespace, key, value string) (string, error) {
	if err := CheckNamespace(namespace); err != nil {
		return "", err
	}
	if err := CheckLabel(key, value); err != nil {
		return "", err
	}
	return "labels/" + namespace + "/" + strings.ReplaceAll(key, "/", "~") + "/" + value + "/", nil
}
