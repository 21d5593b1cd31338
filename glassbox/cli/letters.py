"""Choosing dead letters, and doing something about them."""

from __future__ import annotations

import asyncio
import getpass
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, get_args

from glassbox.cli.errors import CommandError, say

if TYPE_CHECKING:
    from glassbox.settings import Settings
    from streams.clients import Broker
    from streams.redrive import Action, Case, DeadLetter

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_BATCH = 100
"""Letters between two waits for the broker: what a crash would send a second time, which changes nothing."""


@dataclass(frozen=True)
class Filter:
    """Which letters; None leaves all. `source`: TOPIC, TOPIC/PARTITION or TOPIC/PARTITION/OFFSET. `since` (inclusive)
    and `until` (exclusive): a time in ISO 8601 or an age such as 90s, 15m, 6h, 2d."""

    reasons: Collection[str] = ()
    source: str | None = None
    evaluation_id: str | None = None
    tenant: str | None = None
    since: str | None = None
    until: str | None = None

    def __bool__(self) -> bool:
        return self != Filter()

    def matcher(self, now: datetime) -> Callable[[DeadLetter], bool]:
        """Whether a letter is one of them. Raises `CommandError` for a time that is none or an unknown reason."""
        from glassbox.contract.policy import nearest
        from streams.dead_letters import Code

        known = get_args(Code)
        for reason in self.reasons:
            if reason not in known:
                raise CommandError(f"no reason {reason!r}{nearest(reason, known)}; reasons: {', '.join(known)}")
        since, until = (moment(text, now) if text else None for text in (self.since, self.until))

        def matches(letter: DeadLetter) -> bool:
            headers = letter.headers
            stands = [headers.get(f"source_{name}", "") for name in ("topic", "partition", "offset")]
            seen = headers.get("first_seen", "")
            return (
                (not self.reasons or headers.get("reason") in self.reasons)
                and (self.source is None or self.source.split("/") == stands[: self.source.count("/") + 1])
                and self.evaluation_id in (None, headers.get("evaluation_id"))
                and self.tenant in (None, headers.get("tenant"))
                and (since is None or seen >= since)
                and (until is None or seen < until)
            )

        return matches


def moment(text: str, now: datetime) -> str:
    """A time (ISO 8601; UTC where it names no zone) or an age before `now`, as letters write theirs."""
    age = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    try:
        if age:
            when = now - timedelta(**{_UNITS[age[2]]: float(age[1])})
        else:
            when = datetime.fromisoformat(text)
            when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
        return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise CommandError(
            f"{text!r} is neither a time such as 2026-01-31T09:30Z nor an age such as 90s, 15m, 6h or 2d"
        ) from None


def read_cases(broker: Broker) -> list[Case]:
    """Every letter of the topic as it stands now, oldest first."""
    from glassbox.cli.answers import dead_letter
    from streams.clients import read_all
    from streams.redrive import cases
    from streams.topics import DEAD_LETTERS

    return cases(dead_letter(message) for message in read_all(broker, DEAD_LETTERS))


def named(found: list[Case], names: Collection[str]) -> list[Case]:
    """Letters by name. Raises `CommandError` for one that is not there."""
    by_name = {case.letter.name: case for case in found}
    for name in names:
        if name not in by_name:
            raise CommandError(f"no dead letter {name!r}; `glassbox dead-letters list --all` prints their names")
    return [by_name[name] for name in dict.fromkeys(names)]


def chosen(broker: Broker, names: Collection[str], every: bool, wanted: Filter) -> list[Case]:
    """Letters by name, or all open ones that the filter leaves; saying nothing chooses nothing."""
    if names and (every or wanted):
        raise CommandError("name letters, or choose them by filters or --all; not both")
    if not (names or every or wanted):
        raise CommandError("say which: letters by name, a filter such as --reason, or --all")
    matches = wanted.matcher(datetime.now(UTC))
    found = read_cases(broker)
    if names:
        return named(found, names)
    return [case for case in found if case.note is None and matches(case.letter)]


def with_record(settings: Settings, letters: list[DeadLetter]) -> set[str]:
    """The names of those letters whose evaluation has a record, as far as the ledger can be asked from here."""
    from glassbox.cli.ledgers import open_reader
    from ledger.port import LedgerUnavailable

    ids = {evaluation_id for letter in letters if (evaluation_id := letter.headers.get("evaluation_id"))}

    async def look() -> set[str]:
        ledger = open_reader(settings)
        try:
            known = {evaluation_id for evaluation_id in ids if await ledger.read(evaluation_id) is not None}
        finally:
            await ledger.close()
        return {letter.name for letter in letters if letter.headers.get("evaluation_id") in known}

    try:
        return asyncio.run(look())
    except LedgerUnavailable as error:
        say(f"whether a request has a record is left to intake, which then changes nothing: {error}")
        return set()


def act(broker: Broker, letters: list[DeadLetter], action: Action, rate: float, comment: str) -> Iterator[DeadLetter]:
    """Do it at `rate` letters a second, and yield each letter once the broker has it and the note on it.

    A redriven request is in the log before its note is: between the two a crash leaves the letter open, and redriving
    it once more changes nothing.
    """
    from glassbox.cli.publish import Publisher
    from streams.redrive import Note, redriven_headers
    from streams.topics import DEAD_LETTERS, REQUESTS

    by, began = _operator(), time.monotonic()
    with Publisher(broker) as publisher:
        for start in range(0, len(letters), _BATCH):
            batch = letters[start : start + _BATCH]
            for count, letter in enumerate(batch, start):
                time.sleep(max(0.0, began + count / rate - time.monotonic()))
                if action == "redriven":
                    publisher.send(REQUESTS, letter.key, letter.value, headers=redriven_headers(letter))
            publisher.flush()
            at = moment("0s", datetime.now(UTC))
            for letter in batch:
                note = Note(letter.name, action, at, by, comment)
                headers, where = note.headers(), letter.partition
                publisher.send(DEAD_LETTERS, letter.name.encode(), None, headers=headers, partition=where)
            publisher.flush()
            yield from batch


def _operator() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in a container
        return ""
