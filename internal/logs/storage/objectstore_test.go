// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
)

// answering returns a bucket on a server with a fixed response. test/stores has the tests
// with real servers.
func answering(t *testing.T, answer http.HandlerFunc) *ObjectStore {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	bucket, err := blob.OpenBucket(t.Context(), "s3://logs?region=x&anonymous=true&use_path_style=true&endpoint="+server.URL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	return &ObjectStore{bucket: bucket}
}

func TestAnObjectIsAbsentOnlyIfTheStoreSaysSo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		code   string
		absent bool
	}{
		"no object":                    {http.StatusNotFound, "NoSuchKey", true},
		"no bucket":                    {http.StatusNotFound, "NoSuchBucket", false},
		"no right":                     {http.StatusForbidden, "AccessDenied", false},
		"a request ID with a 301":      {http.StatusBadRequest, "InternalError", false},
		"a bucket of another region's": {http.StatusMovedPermanently, "PermanentRedirect", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Amz-Request-Id", "67X301IATCBZ7LG7")
				w.WriteHeader(test.status)
				_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", test.code)
			})
			_, err := store.Read(t.Context(), "a")
			if test.absent {
				require.ErrorIs(t, err, ErrNotFound)
			} else {
				require.Error(t, err)
				require.NotErrorIs(t, err, ErrNotFound)
			}
		})
	}
}

func TestAnExistingObjectIsRecognizedWhateverTheRequestID(t *testing.T) {
	t.Parallel()
	store := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amz-Request-Id", "67X301IATCBZ7LG7")
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = fmt.Fprint(w, "<Error><Code>PreconditionFailed</Code></Error>")
			return
		}
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	})
	require.ErrorIs(t, store.Create(t.Context(), "a", []byte("x")), ErrExists)
}

func TestOnlyURLsOfBucketsAreAccepted(t *testing.T) {
	t.Parallel()
	for location, says := range map[string]string{
		"logs":         "use s3://NAME, gs://NAME or azblob://NAME",
		"mem://logs":   "use s3://NAME, gs://NAME or azblob://NAME",
		"s3://":        "use s3://NAME, gs://NAME or azblob://NAME",
		"s3://a?b=c":   `unknown query parameter "b"`,
		"s3://a b":     "invalid character",
		"file:///logs": "use s3://NAME, gs://NAME or azblob://NAME",
	} {
		_, err := OpenObjectStore(t.Context(), location)
		require.ErrorContains(t, err, "opening the bucket of the logs", location)
		require.ErrorContains(t, err, says, location)
	}
}

func TestTheTimeOfAnObjectOnGoogleCloudStorageIsThatOfItsCreation(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"items": [{"name": "a/1", "size": "5", "timeCreated": %q, "updated": %q, "storageClass": "COLDLINE"}], "prefixes": ["a/b/"]}`,
			created.Format(time.RFC3339), created.AddDate(0, 0, 25).Format(time.RFC3339)) // a lifecycle rule has changed the class
	}))
	t.Cleanup(server.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", server.Listener.Addr().String())
	bucket, err := blob.OpenBucket(t.Context(), "gs://logs?anonymous=true")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	objects, err := (&ObjectStore{bucket: bucket}).List(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, []Object{{Name: "1", Size: 5, Written: created}}, objects)
}

func TestAWalkAsksOnlyForWhatComesAfterAName(t *testing.T) {
	asked := make(chan string, 1)
	store := answering(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("start-after")
		_, _ = fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
	})
	require.NoError(t, store.Walk(t.Context(), "a/data", "0007", func(Object) bool { return true }))
	require.Equal(t, "a/data/0007", <-asked)

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("startOffset")
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", server.Listener.Addr().String())
	bucket, err := blob.OpenBucket(t.Context(), "gs://logs?anonymous=true")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	require.NoError(t, (&ObjectStore{bucket: bucket}).Walk(t.Context(), "a/data", "0007", func(Object) bool { return true }))
	require.Equal(t, "a/data/0007", <-asked)
}

func TestWhatARequestForManyObjectsHasLeftIsDeletedOneByOne(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"it fails for one":           `<DeleteResult><Error><Key>in/b</Key><Code>InternalError</Code></Error></DeleteResult>`,
		"the server doesn't know it": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deleted := make(chan string, 10)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodDelete:
					deleted <- r.URL.Path
				case r.Method == http.MethodHead:
				case answer == "":
					w.WriteHeader(http.StatusNotImplemented)
					_, _ = fmt.Fprint(w, "<Error><Code>NotImplemented</Code></Error>")
				default:
					_, _ = fmt.Fprint(w, answer)
				}
			}))
			t.Cleanup(server.Close)
			location, err := url.Parse("s3://logs?region=x&anonymous=true&use_path_style=true&prefix=in/&endpoint=" + server.URL)
			require.NoError(t, err)
			bucket, err := blob.OpenBucket(t.Context(), location.String())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, bucket.Close()) })
			store := &ObjectStore{bucket: bucket, batch: batchesOf(bucket, location)}
			require.NoError(t, store.DeleteAll(t.Context(), []string{"a", "b"}))
			close(deleted)
			var one []string
			for path := range deleted {
				one = append(one, path)
			}
			if answer == "" {
				require.ElementsMatch(t, []string{"/logs/in/a", "/logs/in/b"}, one)
			} else {
				require.Equal(t, []string{"/logs/in/b"}, one)
			}
		})
	}
}
