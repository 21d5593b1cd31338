"""Prometheus metrics of the roles, in seconds and base units; no evaluation id is ever a label."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

CONSUMED = Counter("glassbox_messages_consumed", "Messages read from a topic", ["topic"])
PRODUCED = Counter("glassbox_messages_produced", "Messages that the broker acknowledged", ["topic"])
STALE = Counter("glassbox_messages_stale", "Messages of an assignment that had ended, left to its successor", ["topic"])
DEAD_LETTERS = Counter("glassbox_dead_letters", "Messages put on the dead-letter topic", ["reason"])
UNKNOWN_FIELDS = Counter("glassbox_request_unknown_fields", "Unknown request fields that were left out")
REQUESTS = Counter("glassbox_requests", "Requests that intake finished, by what became of them", ["result"])

VERDICTS = Counter("glassbox_verdicts", "Verdicts given", ["part", "state", "cause"])
JUDGEMENT_SECONDS = Histogram(
    "glassbox_judgement_seconds", "Time from a task to its answer", ["kind"], buckets=_SECONDS
)
TASK_WAIT_SECONDS = Histogram(
    "glassbox_task_wait_seconds", "Time from a task's append to the start of its judging", ["kind"], buckets=_SECONDS
)

SCORECARDS = Counter("glassbox_scorecards", "Scorecards that the join closed", ["outcome"])
EVALUATION_SECONDS = Histogram(
    "glassbox_evaluation_seconds", "Append time of the announcement to that of the closing event", buckets=_SECONDS
)
OPEN_WINDOWS = Gauge("glassbox_open_windows", "Evaluations that wait for a verdict")
OLDEST_WINDOW_SECONDS = Gauge("glassbox_oldest_window_seconds", "Age of the oldest open evaluation")

LEDGER_RECORDS = Counter("glassbox_ledger_records", "Entries that the committer settled", ["result"])
LEDGER_APPEND_SECONDS = Histogram("glassbox_ledger_append_seconds", "Time of one batch", buckets=_SECONDS)
LEDGER_TROUBLE = Counter("glassbox_ledger_trouble", "Waits because the ledger could not be written", ["cause"])
ANCHORED_RECORDS = Gauge("glassbox_ledger_anchored_records", "Records under the newest anchored Merkle checkpoint")
ANCHORED_AT = Gauge("glassbox_ledger_anchored_timestamp_seconds", "When all records were last known to be anchored")
STORE_TROUBLE = Counter("glassbox_evidence_store_trouble", "Waits because the evidence store did not answer")

UNACKNOWLEDGED = Gauge("glassbox_unacknowledged_messages", "Messages read and not yet acknowledged")
OLDEST_UNACKNOWLEDGED_SECONDS = Gauge("glassbox_oldest_unacknowledged_seconds", "Age of the oldest of them")
LAG = Gauge("glassbox_consumer_lag_messages", "Messages in the log behind which this role is", ["topic", "partition"])
ASSIGNED = Gauge("glassbox_assigned_partitions", "Partitions assigned to this process")
