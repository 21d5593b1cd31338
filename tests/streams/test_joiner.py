from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from glassbox.contract.events import ENTRY, Announced, Claim, DeadlinePassed, Judged, Scorecard
from glassbox.contract.verdict import KINDS
from streams import metrics
from streams.joiner import MARKER_TTL_MS, Join, Marker
from streams.topics import DEAD_LETTERS, RESULTS, SCORECARDS
from tests.streams.doubles import Feed, MemoryOutbox
from tests.streams.events import OTHER, announced, judged

NOW = 1_700_000_000_000


class Markers:
    """Closed ids in memory, with the order of what happened."""

    def __init__(self, outbox: MemoryOutbox) -> None:
        self.markers: dict[str, Marker] = {}
        self.sent_before_mark: list[int] = []
        self._outbox = outbox

    def get(self, evaluation_id: str) -> Marker | None:
        return self.markers.get(evaluation_id)

    async def mark(self, evaluation_id: str, partition: int, marker: Marker) -> None:
        self.sent_before_mark.append(len(self._outbox.on(SCORECARDS)))
        self.markers[evaluation_id] = marker

    def forget(self, evaluation_id: str, partition: int) -> None:
        del self.markers[evaluation_id]

    def oldest(self, partition: int, count: int) -> list[tuple[str, Marker]]:
        return list(self.markers.items())[:count]


class Bench:
    def __init__(self) -> None:
        self.outbox, self.feed = MemoryOutbox(now=NOW), Feed(RESULTS)
        self.closed = Markers(self.outbox)
        self.tasks: list[asyncio.Task[None]] = []
        self.join = Join(self.outbox, self.closed, self.feed.acks, self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def give(self, *events: Announced | Judged | DeadlinePassed, at: int = NOW) -> None:
        for event in events:
            self.join.on_record(*self.feed.next(event.model_dump_json().encode(), at))
        await self.settle()

    async def settle(self) -> None:
        while self.tasks:
            await self.tasks.pop()

    def entries(self) -> list[Any]:
        return [ENTRY.validate_json(sent.value or b"") for sent in self.outbox.on(SCORECARDS)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


ANSWERS = [judged(kind) for kind in KINDS]


async def test_nothing_is_acknowledged_before_card_and_marker(bench: Bench) -> None:
    await bench.give(announced(), *ANSWERS[:-1])
    assert bench.feed.acknowledged == []
    await bench.give(ANSWERS[-1])
    (card,) = bench.entries()
    assert isinstance(card, Scorecard)
    assert bench.closed.sent_before_mark == [1]
    assert bench.closed.markers["e1"].offset == 5
    assert bench.feed.acknowledged == [0, 1, 2, 3, 4, 5]


async def test_an_open_evaluation_holds_back_what_follows(bench: Bench) -> None:
    await bench.give(announced("e1"), announced("e2"), *(judged(kind, evaluation_id="e2") for kind in KINDS))
    assert len(bench.entries()) == 1
    assert bench.feed.acknowledged == []
    await bench.give(*ANSWERS)
    assert bench.feed.acknowledged == list(range(12))


async def test_late_answers_of_a_closed_id_change_nothing(bench: Bench) -> None:
    await bench.give(announced(), *ANSWERS)
    await bench.give(judged("grounding", 0.1, run="run2"), DeadlinePassed(evaluation_id="e1"))
    assert len(bench.entries()) == 1
    assert bench.feed.acknowledged == list(range(8))


@pytest.mark.parametrize("digest", ["a" * 64, OTHER], ids=["same request", "another request"])
async def test_an_announcement_of_a_closed_id_goes_to_the_ledger(bench: Bench, digest: str) -> None:
    await bench.give(announced(), *ANSWERS)
    await bench.give(announced(digest=digest, run="run2", offset=7))
    claim = bench.entries()[-1]
    assert isinstance(claim, Claim)
    assert (claim.request_digest, claim.source.offset) == (digest, 7)
    assert bench.feed.acknowledged == list(range(7))


async def test_a_claim_follows_its_card(bench: Bench) -> None:
    second = announced(digest=OTHER, offset=7)
    await bench.give(announced(), second, *ANSWERS, announced(digest=OTHER, run="run3", offset=8))
    card, *claims = bench.entries()
    assert isinstance(card, Scorecard)
    assert [claim.source.offset for claim in claims] == [7, 8]


async def test_the_timer_closes_what_is_due_by_an_event_in_the_log(bench: Bench) -> None:
    await bench.give(announced(deadline_s=10), ANSWERS[0])
    await bench.join.tick()
    assert bench.outbox.on(RESULTS) == []
    bench.join.clock.observe(NOW + 10_000)
    await bench.join.tick()
    await bench.join.tick()
    (sent,) = bench.outbox.on(RESULTS)  # not again at once
    assert sent.partition == 0
    await bench.give(DeadlinePassed(evaluation_id="e1"), at=NOW + 9_999)
    assert bench.entries() == []
    bench.join.clock.observe(NOW + 14_000)
    await bench.join.tick()
    assert len(bench.outbox.on(RESULTS)) == 2
    await bench.give(DeadlinePassed(evaluation_id="e1"), at=NOW + 14_000)
    (card,) = bench.entries()
    assert card.record["outcome"] == "incomplete"
    assert bench.feed.acknowledged == [0, 1, 2, 3]


async def test_answers_without_announcement_are_dropped_and_the_id_stays_open(bench: Bench) -> None:
    await bench.give(ANSWERS[0])
    await bench.give(DeadlinePassed(evaluation_id="e1"), at=NOW + 300_000)
    assert bench.feed.acknowledged == [0, 1]
    assert bench.closed.markers == {}


async def test_a_revoked_join_leaves_everything_to_its_successor(bench: Bench) -> None:
    await bench.give(announced(), *ANSWERS[:-1])
    record, token = bench.feed.next(ANSWERS[-1].model_dump_json().encode())
    bench.join.on_record(record, token)
    bench.feed.acks.revoke()
    bench.join.clear()
    await bench.settle()
    assert bench.closed.markers == {}
    assert bench.feed.acknowledged == []


async def test_a_marker_is_forgotten_when_old_and_below_the_commit(bench: Bench) -> None:
    await bench.give(announced(), *ANSWERS)
    await bench.give(announced("e2"), at=NOW + MARKER_TTL_MS)
    assert "e1" in bench.closed.markers
    await bench.give(judged("grounding", evaluation_id="e2"), at=NOW + MARKER_TTL_MS + 1000)
    assert "e1" not in bench.closed.markers


async def test_what_cannot_be_read_is_a_dead_letter(bench: Bench) -> None:
    bench.join.on_record(*bench.feed.next(b'{"type": "judged"}'))
    await bench.settle()
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    assert letter.headers["reason"] == "bad_result"
    assert bench.feed.acknowledged == [0]


def shown(metric: Any) -> float:
    return float(metric._value.get())


async def test_gauges_show_the_oldest_evaluation_and_how_late_it_is() -> None:
    bench = Bench()
    await bench.give(announced("e1", deadline_s=10), at=NOW)
    await bench.give(announced("e2", deadline_s=900), at=NOW + 12_500)
    bench.join.measure()
    assert shown(metrics.OPEN_WINDOWS) == 2
    assert 12.5 <= shown(metrics.OLDEST_WINDOW_SECONDS) < 72.5  # and what the test itself took
    assert 2.5 <= shown(metrics.OVERDUE_SECONDS) < 62.5
    await bench.give(*(judged(kind, 0.9, "e1") for kind in KINDS), at=NOW + 13_000)
    bench.join.measure()
    assert shown(metrics.OPEN_WINDOWS) == 1
    assert shown(metrics.OVERDUE_SECONDS) == 0


def test_a_marker_is_read_from_the_changelog_as_it_was_written() -> None:
    marker = Marker("a" * 64, 1_700_000_000_000, 7)
    assert Marker.decode(*marker.encode("e1")) == ("e1", marker)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b'["a", 1, 2]'),
        (b'"e1"', None),
        (b"\xff", b'["a", 1, 2]'),
        (b'"e1"', b"not json"),
        (b'"e1"', b'{"a": 1}'),
        (b'"e1"', b'["a", 1]'),
        (b'"e1"', b'["a", true, 2]'),
        (b"[1]", b'["a", 1, 2]'),
        (b'"e1"', b"[" * 100_000),
    ],
)
def test_what_is_no_marker_is_told_from_one(key: bytes | None, value: bytes | None) -> None:
    assert Marker.decode(key, value) is None
