// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import "net/http"

// holders returns on whose account a request takes memory: its address, and its namespace
// at that address. An API server has one address, and so has a pod. A caller that names
// the namespace of another tenant takes none of the memory that API servers take for it.
func holders(r *http.Request, h head) []string {
	from := address(r)
	return []string{from, from + "/" + h.namespace}
}
