"""What each message of the topics says of an evaluation, as partial states that merge: pure.

Each `Changes` is a set of partial states, and merging them is commutative, associative and idempotent. So the order
between topics, a repeated message or a second reader changes nothing in what stands at the end. Nothing here holds a
text of the evaluation: what is erased in the evidence store needs no second erasing in the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from glassbox.contract.canonical import CanonicalError
from glassbox.contract.events import (
    ENTRY,
    RESULT,
    Announced,
    Judged,
    PolicyRegistration,
    Receipt,
    Review,
    Scorecard,
)
from glassbox.contract.record import RESERVED_PREFIXES, check_shape, policy_digest, record_digest
from glassbox.contract.request import ContractError, EvaluationRequest, parse_request
from streams.ports import Record
from streams.redrive import note_of
from streams.topics import DEAD_LETTERS, RECEIPTS, REQUESTS, RESULTS, SCORECARDS

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
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


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


class Unreadable(ValueError):
    """A message that says nothing to the catalogue: it is passed over and counted."""


@dataclass(frozen=True)
class Projection:
    """`derived_id`: the id of a request that names none. `policies`: the configured names."""

    derived_id: Callable[[EvaluationRequest], str]
    policies: frozenset[str]

    def changes(self, records: Iterable[Record], unreadable: Callable[[Record], object] = lambda _: None) -> Changes:
        """All that these messages say; `unreadable` is told of those that say nothing."""
        made = Changes()
        for record in records:
            try:
                if b"\0" in (record.value or b"") or b"\\u0000" in (record.value or b""):
                    raise Unreadable("a NUL, which the contract refuses and PostgreSQL does not take")
                made.add(_READERS[record.topic](self, record))
            except (ValueError, OverflowError):  # of pydantic, of the contract, of ours; a number out of all bounds
                unreadable(record)
        return made

    def _request(self, record: Record) -> Changes:
        try:
            request = parse_request(record.value, self.policies).request
            evaluation_id = request.evaluation_id or self.derived_id(request)
        except (ContractError, CanonicalError):
            return Changes()  # its dead letter says why
        model = request.model
        requested = Evaluation(
            record.timestamp,
            Order.of(REQUESTED, record),
            model.provider if model else None,
            model.name if model else None,
            None,  # the session is shown under its keyed digest, which the announcement brings
            request.supersedes,
        )
        tenant, url = request.tenant or NO_TENANT, request.callback_url
        changes = Changes(evaluations={(tenant, evaluation_id): requested})
        if url is not None:
            key = CallbackKey(position_of(record.partition, record.offset), record.timestamp)
            changes.callbacks[key] = Callback(tenant, evaluation_id, url, _host(url))
        return changes

    def _result(self, record: Record) -> Changes:
        event = RESULT.validate_json(record.value or b"", extra="ignore")
        if isinstance(event, Judged):
            key = AnswerKey(
                event.evaluation_id, event.kind, event.request_digest, event.policy_digest, event.intake_run
            )
            return Changes(answers={key: Answer(record.timestamp, event.failed)})
        if not isinstance(event, Announced):
            return Changes()
        order = Order.of(ANNOUNCED, record)
        tenant, model = event.tenant or NO_TENANT, event.model
        evaluation = Evaluation(
            event.requested_at,
            order,
            model.provider if model else None,
            model.name if model else None,
            event.session,
            event.supersedes,
        )
        announcement = Announcement(
            order,
            tenant,
            event.request_digest,
            event.policy_digest,
            event.intake_run,
            round(event.deadline_s * 1000),
            event.kinds,
        )
        return Changes({(tenant, event.evaluation_id): evaluation}, {event.evaluation_id: announcement})

    def _entry(self, record: Record) -> Changes:
        entry = ENTRY.validate_json(record.value or b"", extra="ignore")
        if isinstance(entry, PolicyRegistration):
            return Changes(policies={policy_digest(entry.policy): Document(entry.policy)})
        if isinstance(entry, Review):
            told = {name: getattr(entry, name) for name in _TOLD}
            return _reviewed(entry.tenant, entry.record, Order.of(CARD, record), **told)
        if not isinstance(entry, Scorecard):
            return Changes()
        card = Card(entry.record, record_digest(entry.record))
        return _carded(entry.tenant, card, Order.of(CARD, record))

    def _receipt(self, record: Record) -> Changes:
        receipt = Receipt.model_validate_json(record.value or b"", extra="ignore")
        if receipt.record.get("kind") == "review":
            return _reviewed(receipt.tenant, receipt.record, Order.of(REQUESTED, record), committed=True)
        if receipt.record.get("kind") != "scorecard":
            return Changes()
        card = Card(receipt.record, receipt.record_digest, receipt.ledger, receipt.proof)
        changes = _carded(receipt.tenant, card, Order.of(RECEIPT, record))
        proof = receipt.proof
        if receipt.ledger == "merkle" and isinstance(size := proof.get("tree_size"), int) and 0 <= size < 2**53:
            changes.heads[str(proof.get("origin"))] = Head(size, str(proof.get("checkpoint")))
        return changes

    def _letter(self, record: Record) -> Changes:
        headers = {name: value.decode(errors="replace") for name, value in record.headers.items()}
        note = note_of(headers)
        if note is not None:
            return Changes(actions={_position(note.letter): Action(note.at, note.action)})
        letter = Letter(
            at=record.timestamp,
            tenant=headers.get("tenant") or NO_TENANT,
            evaluation_id=headers.get("evaluation_id") or _as_id(record.key),
            reason=headers.get("reason", "unknown"),
            field=known_path(headers.get("field", "")),
            detail=headers.get("detail", ""),
            source_topic=headers.get("source_topic", ""),
            source_partition=_number(headers.get("source_partition")),
            source_offset=_number(headers.get("source_offset")),
            attempt=_number(headers.get("attempt", "0")),
            first_seen=_moment(headers.get("first_seen"), record.timestamp),
        )
        return Changes(letters={(record.partition, record.offset): letter})


_READERS: dict[str, Callable[[Projection, Record], Changes]] = {
    REQUESTS.name: Projection._request,
    RESULTS.name: Projection._result,
    SCORECARDS.name: Projection._entry,
    RECEIPTS.name: Projection._receipt,
    DEAD_LETTERS.name: Projection._letter,
}


def _carded(tenant: str | None, card: Card, order: Order) -> Changes:
    record = card.record
    check_shape(record)
    model = record["model"] or {}
    evaluation = Evaluation(
        milliseconds(record["requested_at"]),
        order,
        model.get("provider"),
        model.get("name"),
        record["session"],
        record["supersedes"],
        card,
    )
    return Changes(evaluations={(tenant or NO_TENANT, record["evaluation_id"]): evaluation})


_TOLD = ("judge", "part", "agrees", "met", "method_digest", "reviewer")


def _reviewed(tenant: str | None, record: Mapping[str, Any], order: Order, **told: Any) -> Changes:
    """The receipt says less than the entry and gives way to it: hence the order."""
    check_shape(record)
    if record["refers_to"] is None:
        raise Unreadable("a review of nothing")
    state = ReviewState(order, record["refers_to"], milliseconds(record["created_at"]), **told)
    return Changes(reviews={(tenant or NO_TENANT, record["digest"]): state})


def millionths(figure: str) -> int:
    """A figure of a record (six decimal places) as a whole number, which databases compare exactly."""
    return int(figure.replace(".", ""))


def milliseconds(moment: str) -> int:
    """RFC 3339 as a record has it -> milliseconds since 1970."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def known_path(path: str) -> str:
    """The beginning of a path that is made of the contract's own names: keys below them come from the request."""
    name = re.match(r"[a-z_]+(\[\d+\])?", path)
    known = name is not None and name[0].partition("[")[0] in (*EvaluationRequest.model_fields, "body")
    return name[0] if name is not None and known else ""


def _host(url: str) -> str:
    """Without what may be secret in an address: user, path, query."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"[:256]
    except ValueError:
        return ""


def _as_id(key: bytes | None) -> str | None:
    """A dead letter keeps its message's key, which is the evaluation id on every topic but perhaps the first."""
    text = (key or b"").decode(errors="replace")
    return text if _ID.fullmatch(text) and not text.startswith(RESERVED_PREFIXES) else None


def _position(letter: str) -> LetterKey:
    partition, _, offset = letter.partition("/")
    return _number(partition), _number(offset)


def _number(text: str | None) -> int:
    if text is None or not text.isdecimal() or len(text) > 18:
        raise Unreadable("not a number")
    return int(text)


def _moment(text: str | None, otherwise: int) -> int:
    try:
        return milliseconds(text or "")
    except ValueError:
        return otherwise
