// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/admission"
)

// head is what the beginning of an AdmissionReview says. A caller that isn't an API server
// can write anything there, so it only decides on whose account memory is taken, and what
// a refusal repeats.
type head struct{ uid, namespace string }

// maxHeadValue is the longest value of a head, in bytes.
const maxHeadValue = 253

// readHead reads the beginning of an AdmissionReview, up to the object.
func readHead(beginning []byte) (h head) {
	decoder := newDecoder(beginning)
	for h.uid == "" || h.namespace == "" {
		token, err := decoder.ReadToken()
		if err != nil {
			return h
		}
		if token.Kind() != '"' {
			continue
		}
		if _, length := decoder.StackIndex(decoder.StackDepth()); length%2 != 0 || decoder.StackDepth() != 2 {
			continue // a name, or a value of another object
		}
		value := token.String()
		if len(value) > maxHeadValue {
			continue
		}
		switch decoder.StackPointer() {
		case "/request/uid":
			h.uid = value
		case "/request/namespace":
			h.namespace = value
		}
	}
	return h
}

// newDecoder accepts what encoding/json accepts, except for an object with a name twice:
// encoding/json would join two maps, each within its bound, and take another namespace
// than the first. API servers send none.
func newDecoder(document []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(document), jsontext.AllowInvalidUTF8(true))
}

// The reasons of refusals.
const (
	unknownCaller = "UnknownCaller" // the caller shows no API server's certificate
	slow          = "Slow"          // the body didn't come in time
	tooLong       = "TooLong"       // the body has too many bytes
	tooManyValues = "TooManyValues" // the body has too many values
	malformed     = "Malformed"     // the body is no AdmissionReview
	busy          = "Busy"          // there was no memory in time
)

// A refusal is the error of a request that reaches no webhook.
type refusal struct {
	reason string
	status int // of HTTP
	err    error
}

// Error implements error.
func (r refusal) Error() string { return r.err.Error() }

// refuse answers a request. API servers show the message to the object's author. By an
// error of HTTP, the webhook fails, and its failurePolicy applies.
func (i *Intake) refuse(w http.ResponseWriter, r *http.Request, h head, err error) {
	refused, ok := errors.AsType[refusal](err)
	if !ok {
		refused = refusal{malformed, http.StatusBadRequest, err}
	}
	i.refused.Add(r.Context(), 1, metric.WithAttributes(attribute.String("reason", refused.reason)))
	if i.lines.TryAccept() {
		i.logger.Warnw("Refused to answer", zap.String("reason", refused.reason), zap.String("address", r.RemoteAddr), zap.String("namespace", h.namespace), zap.Error(err))
	}
	if h.uid == "" || i.Ignored != nil && i.Ignored(r) {
		http.Error(w, err.Error(), refused.status)
		return
	}
	review := admissionv1.AdmissionReview{Response: admission.Deny(err)}
	review.APIVersion, review.Kind = admissionv1.SchemeGroupVersion.String(), "AdmissionReview"
	review.Response.UID = types.UID(h.uid)
	w.Header().Set("Content-Type", "application/json")
	// A client that is gone has no use for the answer.
	_ = json.NewEncoder(w).Encode(review)
}
