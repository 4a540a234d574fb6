// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Collector is an OpenTelemetry collector that receives OTLP over HTTP and passes it on by
// the same protocol. Its arguments are those of the collector.
package main

import (
	"fmt"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func main() {
	if err := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Version: "test"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme: "file", ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
		}},
	}).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "running the collector:", err)
		os.Exit(1)
	}
}

// factories returns what the collector is made of.
func factories() (made otelcol.Factories, err error) {
	made.Telemetry = otelconftelemetry.NewFactory()
	if made.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return made, err
	}
	made.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](otlphttpexporter.NewFactory())
	return made, err
}
