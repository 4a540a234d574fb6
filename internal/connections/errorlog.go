// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"log"
	"strings"
)

// A logFunc logs a message with fields, such as a method of slog.Logger or of
// zap.SugaredLogger.
type logFunc = func(message string, fields ...any)

// ErrorLog returns the ErrorLog of an http.Server. A failed TLS handshake is the client's
// fault, or occurs before the server has its first certificate, so it is logged by debug.
func ErrorLog(debug, failure logFunc) *log.Logger {
	return log.New(&errorLog{debug, failure}, "", 0)
}

type errorLog struct{ debug, failure logFunc }

// Write implements io.Writer.
func (e *errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.HasPrefix(text, "http: TLS handshake error") {
		e.debug(text)
	} else {
		e.failure(text)
	}
	return len(line), nil
}
