// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/page"
	"github.com/entrypointer/entrypointer/internal/page/pagetest"
)

// A handed is what a stand-in for Perfetto was given.
type handed struct {
	origin, title, file string
	trace               []byte
}

// standIn is a page that answers PING as Perfetto does, from the third on, as if it were being
// loaded before. It tells its server what it is given, and when it is asked on in spite of its
// answer.
const standIn = `<!doctype html><title>Perfetto</title><script>
let asked = 0;
addEventListener("message", (m) => {
	if (m.data === "PING") {
		if (++asked >= 3) m.source.postMessage("PONG", "*");
		if (asked === 6) fetch("/asked-on", { method: "POST" });
		return;
	}
	const { buffer, title, fileName } = m.data.perfetto;
	fetch("/handed?" + new URLSearchParams({ origin: m.origin, title, fileName }), { method: "POST", body: buffer });
});
</script>`

// servePerfetto serves a stand-in for Perfetto, and returns its address, what it is given, and
// whether it is asked on.
func servePerfetto(t *testing.T) (address string, given chan handed, askedOn chan struct{}) {
	t.Helper()
	given, askedOn = make(chan handed, 1), make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, standIn)
	})
	mux.HandleFunc("POST /asked-on", func(http.ResponseWriter, *http.Request) { askedOn <- struct{}{} })
	mux.HandleFunc("POST /handed", func(w http.ResponseWriter, r *http.Request) {
		trace, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		query := r.URL.Query()
		given <- handed{query.Get("origin"), query.Get("title"), query.Get("fileName"), trace}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, given, askedOn
}

// withPerfetto has a page open runs in a Perfetto.
func withPerfetto(t *testing.T, address string) func(*page.Options) {
	t.Helper()
	perfetto, err := page.ParsePerfetto(address)
	require.NoError(t, err)
	return func(o *page.Options) { o.Perfetto = perfetto }
}

// perfettoShown is true once the button is there.
const perfettoShown = `!document.getElementById("perfetto").hidden`

// TestARunIsOpenedInPerfetto clicks the button, and compares what the other window gets with the
// file that can be saved.
func TestARunIsOpenedInPerfetto(t *testing.T) {
	inBrowsers(t, opensARunInPerfetto)
}

func opensARunInPerfetto(t *testing.T, b *browser) {
	t.Helper()
	address, given, _ := servePerfetto(t)
	at := serve(t, pagetest.New(), withPerfetto(t, address))
	b.visit(t, at+pages["release"], perfettoShown)
	b.clickOn(t, "#perfetto button")
	select {
	case got := <-given:
		response, err := http.Get(at + pages["release"] + "timeline.pftrace")
		require.NoError(t, err)
		defer response.Body.Close()
		want, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, want, got.trace)
		require.NotEmpty(t, got.trace)
		require.Equal(t, "pipelinerun/release in team-a", got.title)
		require.Equal(t, "release-timeline.pftrace", got.file)
		require.NotContains(t, got.origin, "namespaces", "the token stays here")
	case <-b.Done():
		require.Fail(t, "nothing was handed over")
	}
	b.await(t, `document.getElementById("perfetto-note").textContent.startsWith("Handed to 127.0.0.1:")`)
}

// TestATraceIsHandedToItsPerfettoAlone has the window go on to another site, which answers as
// Perfetto does.
func TestATraceIsHandedToItsPerfettoAlone(t *testing.T) {
	other, given, askedOn := servePerfetto(t)
	redirecting := httptest.NewServer(http.RedirectHandler(other, http.StatusSeeOther))
	t.Cleanup(redirecting.Close)
	at, b := serve(t, pagetest.New(), withPerfetto(t, redirecting.URL)), newChromium(t)
	b.visit(t, at+pages["release"], perfettoShown)
	b.clickOn(t, "#perfetto button")
	select {
	case <-askedOn: // its answer doesn't count
	case got := <-given:
		require.Fail(t, "it was handed over", "%+v", got)
	case <-b.Done():
		require.Fail(t, "the other window isn't asked")
	}
	require.Empty(t, given)
	require.Contains(t, value[string](t, b, `document.getElementById("perfetto-note").textContent`), fmt.Sprintf("Waiting for %s", redirecting.Listener.Addr()))
}
