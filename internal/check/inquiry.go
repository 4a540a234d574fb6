// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/objects"
)

// podsWebhook is the path of the webhook for pods.
const podsWebhook = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pods.entrypointer.dev"

// An inquiry asks a cluster.
type inquiry struct {
	objects.Client
	options Options
	own     string // the version of this program

	injectors, logs scrape
	opted           optedIn
	chart           helmRelease
}

// isInstalled reports whether the cluster has the injector, nil if the user may not know.
// Its webhook and its namespace are looked for, because a user may be allowed to see only
// one of them.
func (q *inquiry) isInstalled(ctx context.Context) (*bool, error) {
	forbidden := false
	for _, path := range []string{podsWebhook, "/api/v1/namespaces/" + objects.InjectorNamespace} {
		err := q.get(ctx, path, &metav1.PartialObjectMetadata{})
		switch {
		case err == nil:
			return new(true), nil
		case apierrors.IsForbidden(err):
			forbidden = true
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("asking the API server whether entrypointer is installed: %w", err)
		}
	}
	if forbidden {
		return nil, nil //nolint:nilnil // that it isn't known is an answer
	}
	return new(false), nil
}

// get reads an object by its path.
func (q *inquiry) get(ctx context.Context, path string, into any) error {
	return objects.Read(q.REST.Get().AbsPath(path).Do(ctx), into)
}

// mostListed bounds the objects of a list.
const mostListed = 100_000

// list reads the metadata of objects, and calls each for one after another.
func (q *inquiry) list(ctx context.Context, path, fields string, each func(metav1.PartialObjectMetadata)) error {
	return list(ctx, q, path, fields, objects.MetadataOnly, each)
}

// list reads objects, and calls each for one after another. The fields are those of a
// selector.
func list[Object any](ctx context.Context, q *inquiry, path, fields, accept string, each func(Object)) error {
	more, err := objects.Each(ctx, func() *rest.Request {
		request := q.REST.Get().AbsPath(path).SetHeader("Accept", accept)
		if fields != "" {
			request = request.Param("fieldSelector", fields)
		}
		return request
	}, mostListed, each)
	if more {
		return fmt.Errorf("there are more than %d", mostListed)
	}
	return err
}

// try creates an object by a dry run, and returns the API server's refusal.
func (q *inquiry) try(ctx context.Context, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return dryRun(q.REST.Post().AbsPath(path), body).Do(ctx).Error()
}

// send posts an object that is stored nowhere, and reads the answer.
func (q *inquiry) send(ctx context.Context, path string, body []byte, into any) error {
	return objects.Read(q.REST.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx), into)
}

func dryRun(request *rest.Request, body []byte) *rest.Request {
	return request.Param("dryRun", "All").SetHeader("Content-Type", "application/json").Body(body)
}

// hindered returns the finding of an error that hinders a check. The right is in the words
// of kubectl auth can-i.
func hindered(err error, what, right string) Finding {
	if apierrors.IsForbidden(err) {
		return Finding{State: Unknown, Message: what + " is unknown: you may not " + right, lacksRight: true}
	}
	return Finding{State: Unknown, Message: fmt.Sprintf("%s is unknown: %v", what, err)}
}

// hinderedAnswer is the answer of a check that an error hinders.
func hinderedAnswer(err error, what, right string) answer {
	return answer{findings: []Finding{hindered(err, what, right)}}
}
