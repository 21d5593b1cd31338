"""Prometheus metrics of the roles, in seconds and base units.

Every label has few values that are known beforehand (topics, kinds, parts, codes): no evaluation id, tenant or text is
one. Counters whose codes are fixed begin at zero for each, because a rate cannot see the first of a series that was not
there before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, of no use here

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

BUILD = Gauge("glassbox_build_info", "1, with the role and the version of this process", ["role", "version"])
READY = Gauge("glassbox_ready", "1 while /ready answers that all is well, else 0")

CONSUMED = Counter("glassbox_messages_consumed", "Messages read from a topic", ["topic"])
PRODUCED = Counter("glassbox_messages_produced", "Messages that the broker acknowledged", ["topic"])
READ_DELAY_SECONDS = Gauge("glassbox_read_delay_seconds", "Age of the message that was read last", ["topic"])
STALE = Counter("glassbox_messages_stale", "Messages of an assignment that had ended, left to its successor", ["topic"])
DEAD_LETTERS = Counter("glassbox_dead_letters", "Messages put on the dead-letter topic", ["reason"])
UNKNOWN_FIELDS = Counter("glassbox_request_unknown_fields", "Unknown request fields that were left out")
REQUESTS = Counter("glassbox_requests", "Requests that intake finished, by what became of them", ["result"])
HELD_REQUESTS = Gauge(
    "glassbox_held_requests", "Requests that wait at intake because judges lag in their lane", ["lane"]
)
BACKLOG = Gauge("glassbox_backlog_messages", "Tasks of a kind without an acknowledgement, seen by intake", ["kind"])

BUDGET = Gauge("glassbox_budget_tokens", "Tokens that judging may take in a day, by the settings")
BUDGET_SPENT = Gauge("glassbox_budget_spent_tokens", "Tokens that the log says were taken since 00:00 UTC")
COST = Counter("glassbox_cost", "What judging cost by the price table, in its money; 0 without prices", ["kind"])

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
FOREIGN_MARKERS = Gauge("glassbox_foreign_markers", "Messages in the changelog of closed ids that are none")
OPEN_WINDOWS = Gauge("glassbox_open_windows", "Evaluations that wait for a verdict")
OLDEST_WINDOW_SECONDS = Gauge("glassbox_oldest_window_seconds", "Age of the oldest open evaluation")
OVERDUE_SECONDS = Gauge("glassbox_window_overdue_seconds", "How far an open evaluation is past its deadline, at most")

LEDGER_RECORDS = Counter("glassbox_ledger_records", "Entries that the committer settled", ["result"])
LEDGER_APPEND_SECONDS = Histogram("glassbox_ledger_append_seconds", "Time of one batch", buckets=_SECONDS)
LEDGER_COMMIT_SECONDS = Histogram(
    "glassbox_ledger_commit_seconds", "Append time of a scorecard to that of its receipt", buckets=_SECONDS
)
END_TO_END_SECONDS = Histogram(
    "glassbox_end_to_end_seconds", "Append time of a request to that of its receipt", buckets=_SECONDS
)
NEWEST_RECORD_AT = Gauge(
    "glassbox_ledger_newest_record_timestamp_seconds", "When this process last put a new record on the ledger, else 0"
)
LEDGER_TROUBLE = Counter("glassbox_ledger_trouble", "Waits because the ledger could not be written", ["cause"])
ANCHORED_RECORDS = Gauge("glassbox_ledger_anchored_records", "Records under the newest anchored Merkle checkpoint")
ANCHORED_AT = Gauge("glassbox_ledger_anchored_timestamp_seconds", "When all records were last known to be anchored")
STORE_TROUBLE = Counter("glassbox_evidence_store_trouble", "Waits because the evidence store did not answer")

UNACKNOWLEDGED = Gauge("glassbox_unacknowledged_messages", "Messages read and not yet acknowledged")
OLDEST_UNACKNOWLEDGED_SECONDS = Gauge("glassbox_oldest_unacknowledged_seconds", "Age of the oldest of them")
LAG = Gauge("glassbox_consumer_lag_messages", "Messages in the log behind which this role is", ["topic", "partition"])
ASSIGNED = Gauge("glassbox_assigned_partitions", "Partitions assigned to this process")

for _lane in ("main", "bulk"):
    HELD_REQUESTS.labels(lane=_lane)
for _outcome in ("pass", "review", "fail", "incomplete", "skipped"):
    SCORECARDS.labels(outcome=_outcome)
for _result in ("created", "exists", "duplicate"):
    LEDGER_RECORDS.labels(result=_result)
for _cause in ("unavailable", "unknown_policy", "unknown_reference"):
    LEDGER_TROUBLE.labels(cause=_cause)


def was_read(topic: str, timestamp: int) -> None:
    """Count a message that was read. `timestamp`: when it was appended, ms."""
    CONSUMED.labels(topic=topic).inc()
    READ_DELAY_SECONDS.labels(topic=topic).set(max(0.0, time.time() - timestamp / 1000))


class EndpointStats(Protocol):
    """What a client of the model endpoint counts (judges.llm.client.ClientStats)."""

    calls: int
    in_flight: int
    cache_hits: int
    prompt_tokens: int
    completion_tokens: int

    @property
    def failures(self) -> Mapping[str, int]: ...


class EndpointCollector(Collector):
    """The calls of this worker to the model endpoint, read from its client when Prometheus asks."""

    def __init__(self, kind: str, stats: EndpointStats) -> None:
        self._kind, self._stats = kind, stats

    def collect(self) -> Iterator[Metric]:
        stats, kind = self._stats, [self._kind]
        calls = CounterMetricFamily("glassbox_llm_calls", "Calls to the model endpoint, retries too", labels=["kind"])
        calls.add_metric(kind, stats.calls)
        hits = CounterMetricFamily("glassbox_llm_cache_hits", "Answers that were had without a call", labels=["kind"])
        hits.add_metric(kind, stats.cache_hits)
        flying = GaugeMetricFamily("glassbox_llm_calls_in_flight", "Calls that wait for an answer", labels=["kind"])
        flying.add_metric(kind, stats.in_flight)
        tokens = CounterMetricFamily(
            "glassbox_llm_tokens", "Tokens sent and had, rejected answers too", labels=["kind", "direction"]
        )
        tokens.add_metric([*kind, "prompt"], stats.prompt_tokens)
        tokens.add_metric([*kind, "completion"], stats.completion_tokens)
        failures = CounterMetricFamily(
            "glassbox_llm_failures", "Attempts that brought no answer which could be used", labels=["kind", "cause"]
        )
        for cause, count in stats.failures.items():
            failures.add_metric([*kind, cause], count)
        yield from (calls, hits, flying, tokens, failures)


def watch_endpoint(kind: str, stats: EndpointStats) -> None:
    """Show a client's counts among this process's metrics."""
    REGISTRY.register(EndpointCollector(kind, stats))
