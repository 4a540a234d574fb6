// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write the golden files")

// test/apiserver shows this file to the policy of config/claims.
func TestAJobIsAsTheGoldenFileHasIt(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "entrypointer-0123456789ab", Namespace: "tenant", UID: "uid-of-claim"}}
	text, err := json.MarshalIndent(thisRelease.wantedJob(claim), "", "  ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile("testdata/job.json", append(text, '\n'), 0o644))
	}
	golden, err := os.ReadFile("testdata/job.json")
	require.NoError(t, err)
	require.JSONEq(t, string(golden), string(text), "run the test with -update")
}
