// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"
)

// library begins the name of each function of knative.dev/pkg.
const library = "knative.dev/pkg/"

// newLogger returns the logger that the ConfigMap config-logging describes, and its
// level. Each line names the replica that writes it, in the field "injector".
func newLogger(ctx context.Context) (*zap.SugaredLogger, zap.AtomicLevel, error) {
	configured, err := sharedmain.GetLoggingConfig(ctx)
	if err != nil {
		return nil, zap.AtomicLevel{}, fmt.Errorf("reading ConfigMap %q: %w", logging.ConfigMapName(), err)
	}
	logger, level := logging.NewLoggerFromConfig(configured, component, zap.WrapCore(demoteLibrary))
	if replica := system.PodName(); replica != "" {
		logger = logger.With(zap.String("injector", replica))
	}
	return logger, level, nil
}

// demoteLibrary turns the lines of knative.dev/pkg at level info into lines at level
// debug: the library writes two for each request and one for each reconciliation.
func demoteLibrary(core zapcore.Core) zapcore.Core { return libraryDemoter{core} }

type libraryDemoter struct{ zapcore.Core }

// With implements zapcore.Core.
func (d libraryDemoter) With(fields []zapcore.Field) zapcore.Core {
	return libraryDemoter{d.Core.With(fields)}
}

// Check implements zapcore.Core. The inner core decides on sampling; zap tells the caller
// only to Write.
func (d libraryDemoter) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if d.Core.Check(entry, nil) == nil {
		return checked
	}
	return checked.AddCore(entry, d)
}

// Write implements zapcore.Core.
func (d libraryDemoter) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if entry.Level == zapcore.InfoLevel && strings.HasPrefix(entry.Caller.Function, library) {
		entry.Level = zapcore.DebugLevel
		if !d.Enabled(entry.Level) {
			return nil
		}
	}
	return d.Core.Write(entry, fields)
}

// forLibrary returns the logger of knative.dev/pkg's webhooks. They describe each request in
// lines at level info, which demoteLibrary turns into lines at level debug: these are put
// together only if they are written.
func forLibrary(logger *zap.SugaredLogger) *zap.SugaredLogger {
	return logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return libraryCore{Core: core} }))
}

type libraryCore struct {
	zapcore.Core

	fields []zapcore.Field // not encoded yet
}

// Enabled implements zapcore.Core.
func (c libraryCore) Enabled(level zapcore.Level) bool {
	if level == zapcore.InfoLevel {
		level = zapcore.DebugLevel
	}
	return c.Core.Enabled(level)
}

// With implements zapcore.Core.
func (c libraryCore) With(fields []zapcore.Field) zapcore.Core {
	return libraryCore{c.Core, slices.Concat(c.fields, fields)}
}

// Check implements zapcore.Core.
func (c libraryCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) || c.Core.Check(entry, nil) == nil {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements zapcore.Core.
func (c libraryCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(entry, slices.Concat(c.fields, fields))
}
