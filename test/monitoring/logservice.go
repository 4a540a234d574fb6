// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

func logServiceRows() []row {
	return []row{
		{"Log service", logServiceNumbers()},
		{"Log service: requests", logRequestPanels()},
		{"Log service: output and readers", outputPanels()},
		{"Log service: keeper", keeperPanels()},
		{"Log service: storage", storagePanels()},
		{"Log service: sending on", exportPanels()},
	}
}

func logServiceNumbers() []panel {
	return []panel{
		number("Replicas", "Replicas of the log service whose metrics are collected.", plainUnit,
			"count(entrypointer_logs_build_info{$selected}) or vector(0)", bad().from(1, "green")),
		number("Versions", "More than one runs during an upgrade only.", plainUnit,
			"count(count by (version) (entrypointer_logs_build_info{$selected}))", good().from(2, "orange")),
		number("Faulty configuration", "1 if config-logs can't be read, and the former configuration is in force.", plainUnit,
			"max(entrypointer_logs_config_faulty{$selected})", good().from(1, "red")),
		number("Stored", "What is stored per second, after compression.", bytesPerUnit,
			inTotal("", "entrypointer_logs_stored_bytes_total", "").expression, good()),
		number("Dropped in an hour", "Output that was marked as dropped in the last hour.", bytesUnit,
			"sum(increase(entrypointer_logs_dropped_bytes_total{$selected}[1h]))", good().from(1, "orange")),
		number("Free space", "Space that is left on the volume. Object stores have no such limit.", bytesUnit,
			"min(entrypointer_logs_storage_free_bytes{$selected})", bad().from(1e9, "green")),
		number("Free inodes", "Inodes that are left on the volume. An object takes one.", plainUnit,
			"min(entrypointer_logs_storage_free_inodes{$selected})", bad().from(1e5, "green")),
		number("Postponed streams", "Streams that aren't deleted yet because the clock of the storage may be wrong. Check the clock.", plainUnit,
			"max(entrypointer_logs_keeper_postponed_streams{$selected})", good().from(1, "orange")),
	}
}

func logRequestPanels() []panel {
	return []panel{
		lines("Requests by path", "The path is a pattern of the API; other stands for requests outside of the API.", requestsUnit,
			query{"sum by (method, path) (rate(entrypointer_logs_requests_total{$selected}[$__rate_interval]))", "{{method}} {{path}}"}),
		lines("Requests by code", "cut stands for an answer that was cut off.", requestsUnit,
			perSecond("entrypointer_logs_requests_total", "code", "")),
		lines("Refused requests by reason", "Requests that exceed a limit. Full: the volume has no space.", requestsUnit,
			perSecond("entrypointer_logs_refused_total", "reason", "")),
		lines("Duration of requests", "Without those that follow a stream.", secondsUnit,
			quantiles("entrypointer_logs_request_duration_seconds")...),
		lines("Duration of requests by path, p99", "Without those that follow a stream.", secondsUnit,
			p99By("path", "entrypointer_logs_request_duration_seconds")),
		lines("Replicas by version", "Both releases run during an upgrade only.", plainUnit,
			query{"count by (version) (entrypointer_logs_build_info{$selected})", "{{version}}"}).Decimals(0),
	}
}

func outputPanels() []panel {
	return []panel{
		lines("Output", "accepted: what containers sent, before compression; stored: what quotas count; dropped: what was marked as dropped.", bytesPerUnit,
			inTotal("accepted", "entrypointer_logs_accepted_bytes_total", ""),
			inTotal("stored", "entrypointer_logs_stored_bytes_total", ""),
			inTotal("dropped", "entrypointer_logs_dropped_bytes_total", "")),
		lines("Readers", "Those that follow a stream are among all readers.", plainUnit,
			query{"sum(entrypointer_logs_readers{$selected})", "all"},
			query{"sum(entrypointer_logs_followers{$selected})", "following"}).Decimals(0),
		withLimit(lines("Memory of answers to readers", "By replica, of 96 MiB at most.", bytesUnit,
			query{"max by (instance, pod) (entrypointer_logs_reading_bytes{$selected})", "{{pod}} {{instance}}"}), 96<<20),
		lines("Connections by port", "Of the fullest replica, which accepts 2,000 of pods and of readers with a token (pods), and 1,500 of API servers (proxied).", plainUnit,
			query{"max by (port) (entrypointer_logs_connections{$selected})", "{{port}}"}).Decimals(0).Span(half),
		lines("Closed connections by port", "Connections per second that were closed because there were too many.", perSecondUnit,
			perSecond("entrypointer_logs_closed_connections_total", "port", "")).Span(half),
	}
}

func keeperPanels() []panel {
	const keeper = "entrypointer_logs_keeper_"
	return []panel{
		lines("Duration of scans", "Of all streams, by the interval of config-logs.", secondsUnit, quantiles(keeper+"duration_seconds")...),
		lines("Objects", "joined: made of smaller ones; deleted: joined or too old; trimmed: deleted at the front of streams to keep a quota.", perSecondUnit,
			inTotal("joined", keeper+"joined_total", ""),
			inTotal("deleted", keeper+"deleted_total", ""),
			inTotal("trimmed", keeper+"trimmed_total", "")),
		lines("Streams", "removed: deleted per second because they had expired.", perSecondUnit,
			inTotal("removed", keeper+"removed_streams_total", "")),
		lines("Postponed streams", "Streams whose retention is over, but which aren't deleted yet because the clock of the storage may be wrong.", plainUnit,
			query{"max(" + keeper + "postponed_streams{$selected})", "postponed"}).Decimals(0).Span(half),
		lines("Failed scans", "Scans in an hour that failed for some streams. The log of the log service says why.", plainUnit,
			query{"sum(increase(" + keeper + "failures_total{$selected}[1h]))", "failed"}).Span(half),
	}
}

func storagePanels() []panel {
	const storage = "entrypointer_logs_storage_"
	return []panel{
		lines("Calls", "Calls of the storage per second.", perSecondUnit, perSecond(storage+"duration_seconds_count", "call", "")),
		lines("Duration of calls, p99", "Calls of the storage.", secondsUnit, p99By("call", storage+"duration_seconds")),
		lines("Failed calls", "Calls of the storage per second that failed.", perSecondUnit, perSecond(storage+"errors_total", "call", "")),
		withFloor(lines("Free space", "Space that is left on the volume.", bytesUnit,
			query{"min(" + storage + "free_bytes{$selected})", "free"}), 1e9).Span(half),
		withFloor(lines("Free inodes", "Inodes that are left on the volume.", plainUnit,
			query{"min(" + storage + "free_inodes{$selected})", "free"}), 1e5).Span(half),
	}
}

func exportPanels() []panel {
	const export = "entrypointer_logs_export_"
	return []panel{
		withLimit(lines("Lag", "How long ago the oldest output was stored that isn't sent. The retention bounds what may wait.", secondsUnit,
			query{"max(" + export + "lag_seconds{$selected})", "oldest"}), 900),
		lines("Output that waits", "Stored, and not sent.", bytesUnit,
			query{"sum(" + export + "lag_bytes{$selected})", "waits"}),
		lines("Streams that wait", "Streams that have something to send, or had a moment ago.", plainUnit,
			query{"sum(" + export + "streams{$selected})", "wait"}).Decimals(0),
		lines("Sent output", "What the destination has taken, before compression.", bytesPerUnit,
			inTotal("sent", export+"bytes_total", "")),
		lines("Records", "sent: taken by the destination; refused: for good.", perSecondUnit,
			inTotal("sent", export+"records_total", ""),
			inTotal("refused", export+"refused_records_total", "")),
		lines("Failed requests", "Requests to the destination per second that failed, and are sent again.", requestsUnit,
			inTotal("failed", export+"failures_total", "")),
		lines("Gaps by reason", "Gaps in an hour. dropped: by containers that print more than could be sent to the log service; deleted: before they were sent on; refused: by the destination.", plainUnit,
			query{"sum by (reason) (increase(" + export + "gaps_total{$selected}[1h]))", "{{reason}}"}).Span(2 * third),
		lines("Postponed writes", "Writes in an hour that are left to the next scan, because too many streams have something to send.", plainUnit,
			query{"sum(increase(" + export + "postponed_total{$selected}[1h]))", "postponed"}),
	}
}
