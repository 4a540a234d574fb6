// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

// The supervisor's flags that the injector sets, up to their values. The flag of an option
// has the option's name, and is here only if something else than the option sets it as well.
const (
	// Flags that carry words of the original argv.
	platformFlag = "-platform="
	argFlag      = "-arg="
	// imageWordsFlag tells the next call which image some of the words are of.
	imageWordsFlag = "-image-words="

	waitFileFlag         = "-wait-file="
	waitContentFlag      = "-wait-content="
	waitEitherFlag       = "-wait-either="
	waitAbortFlag        = "-wait-abort="
	waitCancelFlag       = "-wait-abort-content="
	waitUnlessSharedFlag = "-wait-unless-shared="
	holdFlag             = "-hold="
	waitInsteadFlag      = "-wait-instead="
	turnFileFlag         = "-turn-file="
	startedFileFlag      = "-started-file="
	postFileFlag         = "-post-file="
	startFailureFlag     = "-start-failure-file="

	appendPathFlag    = "-append-path="
	hookArgFlag       = "-before-start-arg="
	timeoutResultFlag = "-timeout-result="
	traceFlag         = "-trace="
	traceStateFlag    = "-trace-state="

	logsFlag          = "-logs="
	logsToFlag        = "-logs-to="
	logsIPFlag        = "-logs-ip="
	logsCAFlag        = "-logs-ca="
	logsTokenFlag     = "-logs-token=" //nolint:gosec // G101: it is no token
	logsContainerFlag = "-logs-container="
	logsLabelFlag     = "-logs-label="
	logsWhenFullFlag  = "-logs-when-full="
	logsMessageFlag   = "-logs-message="
	logsFlushFlag     = "-logs-flush="
	logsGraceFlag     = "-logs-grace="
	maskEnvFlag       = "-mask-env="
	maskFilesFlag     = "-mask-files="
)
