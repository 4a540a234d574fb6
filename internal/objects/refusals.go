// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
)

// MayNotCreate reports whether the user lacks the right to create objects of a resource,
// such as pods. A refusal by admission is forbidden as well, and may quote anything.
func MayNotCreate(err error, resource string) bool {
	return apierrors.IsForbidden(err) && strings.HasPrefix(err.Error(), resource+` is forbidden: User "`)
}

// IsRefusedByUs returns what one of the injector's webhooks said when it refused an object.
func IsRefusedByUs(err error) (message string, is bool) {
	if err == nil {
		return "", false
	}
	_, message, is = strings.Cut(err.Error(), `entrypointer.dev" denied the request: `)
	return message, is
}

// CannotReachUs reports whether the API server couldn't call a webhook of the injector.
func CannotReachUs(err error) bool {
	return err != nil && strings.Contains(err.Error(), `failed calling webhook "`) && strings.Contains(err.Error(), `entrypointer.dev"`)
}

// Command returns a command for a user to type, "" if one of the names in it can't be that
// of an object: the user may paste it into a shell.
func Command(format string, names ...any) string {
	for _, name := range names {
		if len(validation.IsDNS1123Subdomain(fmt.Sprint(name))) > 0 {
			return ""
		}
	}
	return fmt.Sprintf(format, names...)
}
