// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

// The supervisor's flags by which containers have to do with each other, up to their
// values.
const (
	dependsOnFlag       = "-depends-on="
	finalExitCodesFlag  = "-final-exit-codes="
	stopWhenFlag        = "-stop-when="
	stopAfterFlag       = "-stop-after="
	stopShareFlag       = "-stop-share="
	stopDelayFlag       = "-stop-delay="
	stopGraceFlag       = "-stop-grace="
	stopTogetherFlag    = "-stop-together="
	stopSignalFlag      = "-stop-signal="
	orderDirFlag        = "-order-dir="
	orderHeartbeatFlag  = "-order-heartbeat="
	readyExecFlag       = "-ready-exec="
	readyTCPFlag        = "-ready-tcp="
	readyHTTPFlag       = "-ready-http="
	readyHTTPHeaderFlag = "-ready-http-header="
	readyFileFlag       = "-ready-file="
	readyTimeoutFlag    = "-ready-timeout="
	waitForFlag         = "-wait-for="
	endSidecarFlag      = "-end-sidecar="
	endSidecarsOnFlag   = "-end-sidecars-on="
	endSidecarsWhenFlag = "-end-sidecars-when="

	// Flags that carry the livenessProbe.
	aliveExecFlag       = "-alive-exec="
	aliveTCPFlag        = "-alive-tcp="
	aliveHTTPFlag       = "-alive-http="
	aliveHTTPHeaderFlag = "-alive-http-header="

	// Flags that carry the author's startupProbe.
	startupFlags          = "-startup-"
	startupExecFlag       = startupFlags + "exec="
	startupTCPFlag        = startupFlags + "tcp="
	startupHTTPFlag       = startupFlags + "http="
	startupHTTPHeaderFlag = startupFlags + "http-header="
	startupDelayFlag      = startupFlags + "delay="
	startupPeriodFlag     = startupFlags + "period="
	startupTimeoutFlag    = startupFlags + "timeout="
	startupFailuresFlag   = startupFlags + "failures="
	startupGraceFlag      = startupFlags + "grace="

	stdinFromFlag = "-stdin-from="
	stdoutToFlag  = "-stdout-to="
)
