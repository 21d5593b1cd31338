"""What each message of the topics says of an evaluation, as partial states that merge: pure.

So the order between topics, a repeated message or a second reader changes nothing in what stands at the end. Nothing
here holds a text of the evaluation: what is erased in the evidence store needs no second erasing in the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from glassbox.catalogue.states import (
    ANNOUNCED,
    CARD,
    NO_TENANT,
    RECEIPT,
    REQUESTED,
    Action,
    Announcement,
    Answer,
    AnswerKey,
    Callback,
    CallbackKey,
    Card,
    Changes,
    Document,
    Evaluation,
    Head,
    Letter,
    LetterKey,
    Order,
    ReviewState,
    milliseconds,
    position_of,
)
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

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


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
