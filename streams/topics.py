"""The topic table: every topic, what it is for, how long it keeps, how large its messages may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from aiokafka.partitioner import murmur2

from glassbox.contract.verdict import KINDS

DAY_MS = 24 * 3600 * 1000
REQUEST_MAX = 8 * 1024 * 1024
"""A request may be this large on the topic so that one over the contract's limit still becomes a dead letter."""
MESSAGE_MAX = 9 * 1024 * 1024
"""Every other topic, so that a dead letter holds the largest request with its headers."""


@dataclass(frozen=True)
class Topic:
    """One topic. `retention_ms`: None keeps for ever."""

    name: str
    purpose: str
    retention_ms: int | None
    max_message_bytes: int = MESSAGE_MAX
    cleanup: Literal["delete", "compact"] = "delete"

    def config(self, min_insync_replicas: int) -> dict[str, str]:
        """The broker-side settings of this topic."""
        return {
            "cleanup.policy": self.cleanup,
            "retention.ms": str(-1 if self.retention_ms is None else self.retention_ms),
            "max.message.bytes": str(self.max_message_bytes),
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": str(min_insync_replicas),
        }


def judge_topic(kind: str, *, bulk: bool = False) -> Topic:
    """The topic of a worker kind, of the product or of one's own, in one of the two lanes."""
    if bulk:
        return Topic(f"glassbox.judge.{kind}.bulk", f"intake -> {kind} workers, bulk lane", 7 * DAY_MS)
    return Topic(f"glassbox.judge.{kind}", f"intake -> {kind} workers", 7 * DAY_MS)


REQUESTS = Topic("glassbox.requests", "producers -> intake", 7 * DAY_MS, REQUEST_MAX)
BULK_REQUESTS = Topic("glassbox.requests.bulk", "producers, intake -> intake, bulk lane", 7 * DAY_MS)
"""The bulk lane: requests that no other producer's are to wait for. Larger messages than on `glassbox.requests`,
since what intake moves here has more headers."""
JUDGE = {kind: judge_topic(kind) for kind in KINDS}
RESULTS = Topic("glassbox.results", "intake, workers, deadline timer -> join", 7 * DAY_MS)
SCORECARDS = Topic("glassbox.scorecards", "join -> committer, catalogue, anyone", None)
RECEIPTS = Topic("glassbox.receipts", "committer, intake -> catalogue, anyone", None)
DEAD_LETTERS = Topic("glassbox.dead-letters", "any role -> operators", 30 * DAY_MS)
CLOSED = Topic(
    "glassbox-join-closed-changelog", "the join's closed ids (a Faust table's changelog)", None, cleanup="compact"
)


def topics(own_kinds: Iterable[str] = ()) -> tuple[Topic, ...]:
    """Every topic of a pipeline whose policies use these kinds of judges of one's own besides those of the product.
    All have the same number of partitions."""
    kinds = (*KINDS, *own_kinds)
    tasks = (judge_topic(kind, bulk=bulk) for bulk in (False, True) for kind in kinds)
    return (REQUESTS, BULK_REQUESTS, *tasks, RESULTS, SCORECARDS, RECEIPTS, DEAD_LETTERS, CLOSED)


TOPICS = topics()
"""Those of the product."""


def kept_longer(topics: Iterable[Topic], days: Mapping[str, int]) -> tuple[Topic, ...]:
    """The topics, those that are named in `days` kept so many days.

    Raises ValueError where a name is of none of them, or the topic would be kept shorter than the pipeline needs.
    """
    found = {topic.name: topic for topic in topics}
    for name, kept in days.items():
        topic = found.get(name)
        if topic is None:
            raise ValueError(f"{name} is no topic of the pipeline; its topics: {', '.join(found)}")
        if topic.retention_ms is None or kept * DAY_MS < topic.retention_ms:
            least = "for ever" if topic.retention_ms is None else f"{topic.retention_ms // DAY_MS} days or more"
            raise ValueError(f"{name} must be kept {least}")
        found[name] = replace(topic, retention_ms=kept * DAY_MS)
    return tuple(found.values())


def partition_of(key: bytes, partitions: int) -> int:
    """Where a key's events go: murmur2 as Kafka's own clients compute it, modulo the configured count.

    The count is configured, never asked of the broker: an id must keep its partition for ever, so growth means new
    topics (DESIGN §4.1 rule 2).
    """
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)
