// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config

const (
	// WebhookService is the Service by which API servers call the injector, in its namespace.
	WebhookService = "entrypointer-webhook"
	// ServedSecret is the Secret with the certificate that the injector serves, in its
	// namespace.
	ServedSecret = "entrypointer-webhook-certs"
)
