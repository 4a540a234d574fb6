// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// The end of a container waits for the log service by default for as long as an outage of
// a minute takes, with the pause before the next attempt. It waits for a moment if the
// cluster's log has all output as well, or if the container is a server, whose next start
// would wait as well.
const (
	longFlush  = 75 * time.Second
	shortFlush = 10 * time.Second
)

func logsFlags(value string, c optionContext) ([]string, error) {
	switch {
	case value == "off":
		return nil, nil
	case value != "stream" && value != "tee":
		return nil, oneOf(value, "off", "stream", "tee")
	case c.logs == nil:
		return nil, nil
	}
	flags := append([]string{c.flag + value}, c.logs()...)
	if !c.isSet(logsFlushOption) {
		flush := shortFlush
		if value == "stream" && !c.isServer {
			flush = longFlush
		}
		flags = append(flags, logsFlushFlag+flush.String())
	}
	if value == "stream" && !c.isSet(logsWhenFullOption) { // the log service has the only copy
		flags = append(flags, blockFlag(c))
	}
	if value == "stream" && c.fallsBack { // the kubelet would find no log
		flags = append(flags, logsMessageFlag+text.Escape(terminationFile(c)))
	}
	return flags, nil
}

// A command waits for the log service by default for as long as an outage of a minute
// takes, with the pause before the next attempt, or if it serves requests, for a moment.
const (
	longBlock  = 75 * time.Second
	shortBlock = 2 * time.Second
)

// blockFlag returns the flag by which the command waits for the default time.
func blockFlag(c optionContext) string {
	bound := longBlock
	if c.isServer {
		bound = shortBlock
	}
	return logsWhenFullFlag + "block:" + bound.String()
}

func logsWhenFullFlags(value string, c optionContext) (flags []string, _ error) {
	bound, hasBound := strings.CutPrefix(value, "block:")
	switch d, err := time.ParseDuration(bound); {
	case value == "block":
		flags = []string{blockFlag(c)}
	case value == "drop", hasBound && err == nil && d > 0:
		flags = []string{c.flag + value}
	default:
		return nil, text.CanBe(`"drop", "block", or "block:" and a duration above zero with a unit, such as block:30s` + spelling.DidYouMean(value, []string{"drop", "block"}))
	}
	return c.ifSent(flags), nil
}

// The bounds of the option logs-buffer, in bytes.
const (
	leastBuffer = 256 << 10
	mostBuffer  = 64 << 20
)

func logsFlushFlags(value string, c optionContext) ([]string, error) {
	c.flag = logsFlushFlag // older than the option's name
	flags, err := durationFlags(value, c)
	return c.ifSent(flags), err
}

func logsBufferFlags(value string, c optionContext) ([]string, error) {
	size, err := resource.ParseQuantity(value)
	if err != nil || size.CmpInt64(leastBuffer) < 0 || size.CmpInt64(mostBuffer) > 0 {
		return nil, text.CanBe("a quantity of bytes from 256Ki to 64Mi, such as 4Mi")
	}
	return c.ifSent([]string{c.flag + strconv.FormatInt(size.Value(), 10)}), nil
}

// ifSent returns flags for containers that send: without support for logs, the supervisor
// doesn't know them.
func (c optionContext) ifSent(flags []string) []string {
	if !c.sends {
		return nil
	}
	return flags
}

func maskFilesFlags(value string, c optionContext) ([]string, error) {
	flags, err := eachWord(absolutePath)(value, c)
	return c.ifSent(flags), err
}
