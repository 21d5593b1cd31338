"""Redriving and discarding dead letters, apart from how they are read and sent (DESIGN §4.1 rule 24).

What is done about a letter is itself a message of the dead-letter topic, a *note*: so the topic alone says which
letters are open, whoever looks, and nothing is decided twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from streams.topics import BULK_REQUESTS, REQUESTS

MAX_ATTEMPTS = 3
"""A request is redriven so often at most, over all the letters it became."""
TERMINAL = frozenset({"request_lost", "erased"})
"""Reasons that no second try can change."""

Action = Literal["redriven", "discarded"]
_ACTIONS: tuple[Action, ...] = ("redriven", "discarded")


@dataclass(frozen=True)
class DeadLetter:
    """`headers` as the pipeline wrote them: reason, field, detail, source_topic, source_partition, source_offset …;
    `value` is the original message, None where it was left out."""

    headers: Mapping[str, str]
    key: bytes | None
    value: bytes | None
    partition: int
    offset: int

    @property
    def name(self) -> str:
        """PARTITION/OFFSET on the dead-letter topic."""
        return f"{self.partition}/{self.offset}"

    @property
    def attempt(self) -> int:
        """How often the request was redriven before it became this letter."""
        text = self.headers.get("attempt", "0")
        return int(text) if text.isdecimal() and len(text) < 4 else MAX_ATTEMPTS


@dataclass(frozen=True)
class Note:
    """What somebody did about a letter, and when (RFC 3339)."""

    letter: str
    action: Action
    at: str
    by: str = ""
    comment: str = ""

    def headers(self) -> dict[str, str]:
        named = {"action": self.action, "letter": self.letter, "at": self.at, "by": self.by, "comment": self.comment}
        return {name: text for name, text in named.items() if text}


@dataclass(frozen=True)
class Case:
    """A letter and the first note on it, None while it is open."""

    letter: DeadLetter
    note: Note | None


def note_of(headers: Mapping[str, str]) -> Note | None:
    """The note that a message of the dead-letter topic is; None for a letter."""
    for action in _ACTIONS:
        if headers.get("action") == action:
            return Note(
                headers.get("letter", ""),
                action,
                headers.get("at", ""),
                headers.get("by", ""),
                headers.get("comment", ""),
            )
    return None


def cases(messages: Iterable[DeadLetter]) -> list[Case]:
    """The letters among all messages of the topic, oldest first, each with what was done about it."""
    letters: list[DeadLetter] = []
    notes: dict[str, Note] = {}
    for message in messages:
        note = note_of(message.headers)
        if note is None:
            letters.append(message)
        elif note.letter not in notes or note.at < notes[note.letter].at:
            notes[note.letter] = note
    letters.sort(key=lambda letter: (letter.headers.get("first_seen", ""), letter.partition, letter.offset))
    return [Case(letter, notes.get(letter.name)) for letter in letters]


def settled(case: Case) -> str | None:
    """What was done about a letter before; None while it is open."""
    return None if case.note is None else f"it was {case.note.action} at {case.note.at}"


def obstacle(case: Case) -> str | None:
    """Why a letter cannot be redriven; None where it can."""
    letter, reason = case.letter, case.letter.headers.get("reason", "")
    if case.note is not None:
        return settled(case)
    if letter.headers.get("source_topic") not in (REQUESTS.name, BULK_REQUESTS.name):
        return "only requests are redriven: a role's own message is a diagnosis"
    if reason in TERMINAL:
        return f"no second try changes {reason}"
    if letter.value is None:
        return "its content is not there"
    if letter.attempt >= MAX_ATTEMPTS:
        return f"it was redriven {MAX_ATTEMPTS} times already"
    return None


def redriven_headers(letter: DeadLetter) -> dict[str, str]:
    """The headers of the request that is sent again: the loop guard's count, where it first stood, whose it is, and
    its trace."""
    headers = letter.headers
    first = f"{headers['source_topic']}/{headers['source_partition']}/{headers['source_offset']}"
    kept = {name: headers[name] for name in ("tenant", "traceparent", "tracestate") if name in headers}
    return {"attempt": str(letter.attempt + 1), "original": headers.get("original", first), **kept}
