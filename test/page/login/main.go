// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Login is an OpenID provider for tests, without passwords: its page has a link for each user. The
// ID token of a user is a file with the user's name, such as a token of a ServiceAccount, and the keys
// by which it is checked are those of the API server that has signed it.
//
//	login -listen :8080 -keys FILE -users DIRECTORY
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

func main() {
	listen := flag.String("listen", ":8080", "the address to serve on")
	keys := flag.String("keys", "", "a file with the keys, as a JSON Web Key Set")
	users := flag.String("users", "", "a directory with a file for each user, which has the ID token")
	flag.Parse()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, *keys) })
	mux.Handle("GET /authorize", authorize(*users))
	mux.Handle("POST /token", token(*users))
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "serving:", err)
		os.Exit(1)
	}
}

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<title>Log in</title>
{{range $user, $back := .}}<a id="{{$user}}" href="{{$back}}">{{$user}}</a>
{{end}}`))

// authorize shows the users. The code of a user is the name.
func authorize(users string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()
		back, err := url.Parse(asked.Get("redirect_uri"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		files, err := os.ReadDir(users)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		links := map[string]string{}
		for _, file := range files {
			if strings.HasPrefix(file.Name(), ".") { // of the kubelet
				continue
			}
			back.RawQuery = url.Values{"code": {file.Name()}, "state": asked["state"]}.Encode()
			links[file.Name()] = back.String()
		}
		if err := page.Execute(w, links); err != nil {
			fmt.Fprintln(os.Stderr, "showing the users:", err)
		}
	})
}

// token gives the ID token for a code, and for a refresh token, which is the name as well. It prints
// that a token was refreshed.
func token(users string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.PostFormValue("code") + r.PostFormValue("refresh_token")
		root, err := os.OpenRoot(users)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer root.Close()
		id, err := root.ReadFile(user)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.PostFormValue("refresh_token") != "" {
			fmt.Println("refreshed the token of", user)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{
			"access_token": "unused", "token_type": "Bearer", "expires_in": 3600, "id_token": string(id), "refresh_token": user,
		}); err != nil {
			fmt.Fprintln(os.Stderr, "giving a token:", err)
		}
	})
}
