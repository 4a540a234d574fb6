// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func uidOf(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

// TestAnAnswerIsKeptForTenSeconds asks about the same start of a container, another start, and
// one that fails.
func TestAnAnswerIsKeptForTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var fails error
		reader := &Reader{Kept: &Kept{}, Exec: func(context.Context, string, string, ...string) ([]byte, error) {
			asked++
			return []byte(fmt.Sprintf(`{"phase":"Running","message":"%d"}`, asked)), fails
		}}
		says := func(p *corev1.Pod, c Container) string {
			s, err := reader.askAbout(t.Context(), p, &c)
			if err != nil {
				return err.Error()
			}
			return s.Message
		}
		first := Container{Name: "main", Since: time.Now()}
		again := Container{Name: "main", Since: time.Now(), Restarts: 1}
		require.Equal(t, "1", says(uidOf("a"), first))
		require.Equal(t, "1", says(uidOf("a"), first))
		require.Equal(t, "2", says(uidOf("a"), again), "it has restarted")
		require.Equal(t, "3", says(uidOf("b"), first), "another pod")
		time.Sleep(keptFor - time.Nanosecond)
		require.Equal(t, "1", says(uidOf("a"), first))
		time.Sleep(time.Nanosecond)
		require.Equal(t, "4", says(uidOf("a"), first))

		fails = errors.New("no supervisor")
		require.Equal(t, "no supervisor", says(uidOf("c"), first))
		fails = nil
		require.Equal(t, "no supervisor", says(uidOf("c"), first))
		fails = errors.New("container not found")
		require.Equal(t, errEnded.Error(), says(uidOf("d"), first))
		fails = nil
		require.Equal(t, "7", says(uidOf("d"), first), "its end isn't kept")

		over, cancel := context.WithCancel(t.Context())
		cancel()
		fails = over.Err()
		_, err := reader.askAbout(over, uidOf("e"), &first)
		require.Error(t, err)
		fails = nil
		require.Equal(t, "9", says(uidOf("e"), first), "the next request asks")
	})
}

func TestKeptAnswersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := &Kept{}
		reader := &Reader{Kept: kept, Exec: func(context.Context, string, string, ...string) ([]byte, error) { return []byte(`{}`), nil }}
		ask := func(n int) {
			_, err := reader.askAbout(t.Context(), uidOf(fmt.Sprint(n)), &Container{Name: "main"})
			require.NoError(t, err)
		}
		for n := range mostKept + 10 {
			ask(n)
		}
		require.Len(t, kept.answers, mostKept)
		time.Sleep(keptFor)
		ask(0)
		require.Len(t, kept.answers, 1, "old ones are dropped")
	})
}
