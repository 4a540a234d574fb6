// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Allow admits the object with the changes of patch, which may be empty.
func Allow(patch []jsonpatch.Operation) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if len(patch) == 0 {
		return response
	}
	encoded, err := json.Marshal(operationsOf(patch))
	if err != nil {
		return failed(fmt.Errorf("encoding the patch: %w", err))
	}
	patchType := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = encoded, &patchType
	return response
}

// An operation is encoded like a jsonpatch.Operation, but in one pass: encoding/json checks
// and copies what a MarshalJSON returns.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func operationsOf(patch []jsonpatch.Operation) []operation {
	operations := make([]operation, len(patch))
	for i, o := range patch {
		operations[i] = operation{o.Operation, o.Path, o.Value}
		if o.Value == nil && o.Operation != "remove" {
			operations[i].Value = json.RawMessage("null")
		}
	}
	return operations
}

// Deny refuses the object with a message for its author.
func Deny(reason error) *admissionv1.AdmissionResponse {
	return refuse(http.StatusForbidden, metav1.StatusReasonForbidden, reason)
}

// Invalid refuses an object that its author has to correct.
func Invalid(reason error) *admissionv1.AdmissionResponse {
	return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, reason)
}

// Malformed refuses an object that an API server should not have sent.
func Malformed(err error) *admissionv1.AdmissionResponse {
	return Invalid(fmt.Errorf("decoding the object under review: %w", err))
}

// failed refuses the object because of a defect of the injector.
func failed(err error) *admissionv1.AdmissionResponse {
	return refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError, err)
}

func refuse(code int32, reason metav1.StatusReason, err error) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  reason,
		Message: err.Error(),
	}}
}
