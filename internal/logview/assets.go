// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed assets
var assets embed.FS

// Assets serves the style sheet /logview.css and the module /logview.mjs.
func Assets() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the directory is embedded
	}
	served := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".mjs") {
			w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		served.ServeHTTP(w, r)
	})
}

var section = template.Must(template.ParseFS(assets, "assets/section.html"))

// Section returns the HTML of the view of a log, for the inside of a section. Base is the URL
// below which the handler of the log is, with a slash at its end. Without script, it has a link to
// the text of the log.
func Section(base string) template.HTML {
	var text strings.Builder
	if err := section.Execute(&text, base); err != nil {
		panic(err) // a string can't be written wrongly
	}
	return template.HTML(text.String()) //nolint:gosec // G203: made by html/template
}
