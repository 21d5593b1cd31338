"""What is known of an evaluation, as partial states that merge: commutative, associative and idempotent.

Nothing here holds a text of the evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from streams.ports import Record

MAX_PARTITIONS = 1024
NO_TENANT = ""
"""The tenant of evaluations that name none."""
RECEIPT, CARD, ANNOUNCED, REQUESTED = range(4)
"""What an evaluation's row rests on, the best first: a receipt names the record that stands (DESIGN §4.1 rule 23)."""


def position_of(partition: int, offset: int) -> int:
    """A message's place on its topic in one number."""
    return offset * MAX_PARTITIONS + partition


Key = tuple[str, str]
"""Tenant and evaluation id; of a review, tenant and digest."""


class Order(NamedTuple):
    """Which of two sources of one evaluation is shown: the lesser. `at`: append time in ms; `position`: offset and
    partition in one number."""

    rank: int
    at: int
    position: int

    @classmethod
    def of(cls, rank: int, record: Record) -> Order:
        return cls(rank, record.timestamp, position_of(record.partition, record.offset))


@dataclass(frozen=True)
class Card:
    """A scorecard, with where its record stands if it came with a receipt. `scores`: judge -> millionths."""

    record: Mapping[str, Any]
    record_digest: str
    ledger: str | None = None
    proof: Mapping[str, Any] | None = None

    @property
    def scores(self) -> dict[str, int]:
        return {row["judge"]: millionths(row["score"]) for row in self.record["judges"] if row["score"] is not None}

    @property
    def parts(self) -> dict[str, int]:
        """JUDGE/PART -> millionths."""
        rows = (row for row in self.record["parts"] if row["score"] is not None)
        return {f"{row['judge']}/{row['part']}": millionths(row["score"]) for row in rows}


@dataclass(frozen=True)
class Evaluation:
    """What is known of one evaluation. `requested_at`: ms; the earliest that any source names."""

    requested_at: int
    order: Order
    provider: str | None = None
    model: str | None = None
    session: str | None = None
    supersedes: str | None = None
    card: Card | None = None

    def merged(self, other: Evaluation) -> Evaluation:
        best = min(self, other, key=lambda each: each.order)
        return replace(best, requested_at=min(self.requested_at, other.requested_at))


@dataclass(frozen=True)
class Announcement:
    """The announcement that stands is the first of its id (rule 15)."""

    order: Order
    tenant: str
    request_digest: str
    policy_digest: str
    intake_run: str
    deadline_ms: int
    kinds: tuple[str, ...]

    def merged(self, other: Announcement) -> Announcement:
        return min(self, other, key=lambda each: each.order)


class AnswerKey(NamedTuple):
    evaluation_id: str
    kind: str
    request_digest: str
    policy_digest: str
    intake_run: str


@dataclass(frozen=True)
class Answer:
    """One kind's answer. `failed`: some part of it did; a second answer of the same run may be better."""

    at: int
    failed: bool

    def merged(self, other: Answer) -> Answer:
        return Answer(min(self.at, other.at), self.failed and other.failed)


LetterKey = tuple[int, int]
"""Partition and offset on the dead-letter topic."""


@dataclass(frozen=True)
class Letter:
    """A dead letter without its content. Times in ms."""

    at: int
    tenant: str
    evaluation_id: str | None
    reason: str
    field: str
    detail: str
    source_topic: str
    source_partition: int
    source_offset: int
    attempt: int
    first_seen: int

    def merged(self, _same: Letter) -> Letter:
        return self


@dataclass(frozen=True)
class Action:
    """What somebody did about a dead letter; the first note counts."""

    at: str
    action: str

    def merged(self, other: Action) -> Action:
        return min(self, other, key=lambda each: (each.at, each.action))


class CallbackKey(NamedTuple):
    """Which request: where it stands on its topic, and when it was put there, because an embedded broker's log begins
    anew."""

    position: int
    at: int


@dataclass(frozen=True)
class Callback:
    """Who is to be told how one request ends. `host`: with the port, if the address names one; empty for no address."""

    tenant: str
    evaluation_id: str
    url: str
    host: str

    def merged(self, _same: Callback) -> Callback:
        return self


@dataclass(frozen=True)
class ReviewState:
    """A review, or only that its record stands: then all but where it belongs is None."""

    order: Order
    evaluation_id: str
    created_at: int
    judge: str | None = None
    part: str | None = None
    agrees: bool | None = None
    met: bool | None = None
    method_digest: str | None = None
    reviewer: str | None = None
    committed: bool = False

    def merged(self, other: ReviewState) -> ReviewState:
        best = min(self, other, key=lambda each: each.order)
        return replace(best, committed=self.committed or other.committed)


@dataclass(frozen=True)
class Head:
    """The largest checkpoint that a receipt carried, of one log."""

    size: int
    note: str

    def merged(self, other: Head) -> Head:
        return max(self, other, key=lambda each: (each.size, each.note))


@dataclass(frozen=True)
class Document:
    """A registered policy."""

    policy: Mapping[str, Any]

    def merged(self, _same: Document) -> Document:
        return self


@dataclass(frozen=True)
class Changes:
    """Partial states by key."""

    evaluations: dict[Key, Evaluation] = field(default_factory=dict)
    announcements: dict[str, Announcement] = field(default_factory=dict)
    answers: dict[AnswerKey, Answer] = field(default_factory=dict)
    letters: dict[LetterKey, Letter] = field(default_factory=dict)
    actions: dict[LetterKey, Action] = field(default_factory=dict)
    callbacks: dict[CallbackKey, Callback] = field(default_factory=dict)
    reviews: dict[Key, ReviewState] = field(default_factory=dict)
    heads: dict[str, Head] = field(default_factory=dict)
    policies: dict[str, Document] = field(default_factory=dict)

    def add(self, other: Changes) -> None:
        """Merge another's states into these."""
        for name in self.__dataclass_fields__:
            _add(getattr(self, name), getattr(other, name))


K = TypeVar("K")


def _add(into: dict[K, Any], more: Mapping[K, Any]) -> None:
    for key, value in more.items():
        into[key] = into[key].merged(value) if key in into else value


def millionths(figure: str) -> int:
    """A figure of a record (six decimal places) as a whole number, which databases compare exactly."""
    return int(figure.replace(".", ""))


def milliseconds(moment: str) -> int:
    """RFC 3339 as a record has it -> milliseconds since 1970."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)
