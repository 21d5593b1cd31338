"""Who is in which lane, and that neither lane waits for the other longer than it must."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.verdict import KINDS
from ledger.evidence import EvidenceVault
from ledger.store import FolderStore
from streams.admission import Admission
from streams.intake import Intake
from streams.ports import Record
from streams.shares import Shares
from streams.slots import Slots
from streams.topics import BULK_REQUESTS, DEAD_LETTERS, REQUESTS, RESULTS, Topic, judge_topic
from tests.streams.doubles import Feed, MemoryOutbox, NoBacklog
from tests.streams.events import POLICIES

T0 = 1_700_000_000_000

# shares


@given(
    rate=st.floats(0.1, 1000),
    burst=st.integers(1, 50),
    gaps=st.lists(st.integers(0, 20_000), min_size=1, max_size=200),
)
def test_no_span_of_time_has_more_than_its_burst_and_its_rate(rate: float, burst: int, gaps: list[int]) -> None:
    shares, at, within = Shares(rate, burst, 1), T0, list[int]()
    for gap in gaps:
        at += gap
        if shares.within("a", 0, at):
            within.append(at)
    for first in range(len(within)):
        for last in range(first, len(within)):
            taken, seconds = last - first + 1, (within[last] - within[first]) / 1000
            assert taken <= burst + seconds * rate * (1 + 1e-4) + 1e-6


@given(rate=st.floats(0.1, 100), burst=st.integers(1, 20), noise=st.lists(st.integers(0, 50), max_size=100))
def test_a_tenant_within_its_rate_is_within_its_share_whatever_others_ask(
    rate: float, burst: int, noise: list[int]
) -> None:
    shares, at = Shares(rate, burst, 1), T0
    for gap in noise:
        shares.within("flood", 0, at)
        at += int(1000 / rate) + 1 + gap
        shares.within("flood", 0, at)
        assert shares.within("modest", 0, at)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2), st.integers(0, 5000)), max_size=100))
def test_what_is_decided_follows_from_the_messages_of_the_partition_alone(asked: list[tuple[Any, int, int]]) -> None:
    together, at = Shares(2, 6, 3), T0
    alone = [Shares(2, 6, 3) for _ in range(3)]
    for tenant, partition, gap in asked:
        at += gap
        assert together.within(tenant, partition, at) == alone[partition].within(tenant, partition, at)


def test_a_clock_that_is_set_back_is_held_against_nobody_for_longer_than_a_whole_burst() -> None:
    shares = Shares(rate=1, burst=5, partitions=1)
    assert [shares.within(None, 0, T0 + 3_600_000) for _ in range(6)] == [True] * 5 + [False]
    assert not shares.within(None, 0, T0)
    assert shares.within(None, 0, T0 + 5_000)


def test_tenants_who_ask_no_more_are_forgotten() -> None:
    shares = Shares(rate=1, burst=1, partitions=1)
    for number in range(20_001):
        assert shares.within(f"tenant {number}", 0, T0 + number)
    assert len(shares._full_at) <= 10_000


# slots


async def granted(slots: Slots, **asked: bool) -> asyncio.Task[None]:
    task = asyncio.create_task(slots.take(**asked))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def test_a_flood_in_the_bulk_lane_leaves_a_place_free() -> None:
    slots = Slots(4)
    flood = [await granted(slots, bulk=True) for _ in range(3)]
    over = await granted(slots, bulk=True)
    assert ([task.done() for task in flood], over.done()) == ([True] * 3, False)
    assert (await granted(slots)).done()
    waits = await granted(slots)
    slots.give_back(bulk=True)
    await waits  # before the bulk task that has waited longer
    assert not over.done()
    slots.give_back()
    slots.give_back()
    await over


async def test_the_bulk_lane_is_slowed_down_and_never_stopped() -> None:
    slots, order = Slots(1), list[str]()
    await slots.take()

    async def lane(name: str, count: int, bulk: bool) -> None:
        for _ in range(count):
            await slots.take(bulk=bulk)
            order.append(name)
            await asyncio.sleep(0)
            slots.give_back(bulk=bulk)

    lanes = [asyncio.create_task(lane("main", 40, False)), asyncio.create_task(lane("bulk", 5, True))]
    await asyncio.sleep(0)
    slots.give_back()
    await asyncio.gather(*lanes)
    gaps = "".join(name[0] for name in order).split("b")
    assert len(gaps) == 6
    assert all(len(gap) <= 8 for gap in gaps[:5])
    assert slots.held == 0


async def test_who_must_run_alone_does_so_and_waits_for_nothing_new() -> None:
    slots = Slots(3)
    await slots.take()
    alone = await granted(slots, bulk=True, alone=True)
    main = await granted(slots)
    assert (alone.done(), main.done()) == (False, False)
    slots.give_back()
    await alone
    assert not (await granted(slots)).done()
    slots.give_back(bulk=True, alone=True)
    await main


@given(st.lists(st.tuples(st.sampled_from(["take", "give", "cancel"]), st.booleans(), st.booleans()), max_size=60))
def test_no_place_is_lost_or_had_twice(steps: list[tuple[str, bool, bool]]) -> None:
    async def play() -> None:
        slots = Slots(3)
        asked: list[tuple[asyncio.Task[None], bool, bool]] = []
        for what, bulk, alone in steps:
            if what == "take":
                asked.append((await granted(slots, bulk=bulk, alone=alone), bulk, alone))
            else:
                for each in [e for e in asked if e[0].done() == (what == "give")][:1]:
                    asked.remove(each)
                    if what == "give":
                        slots.give_back(bulk=each[1], alone=each[2])
                    each[0].cancel()
                    await asyncio.wait([each[0]])
            held = [(3 if alone else 1) for task, _, alone in asked if task.done()]
            assert slots.held == sum(held) <= 3
        for _ in range(len(asked)):
            (have,) = [each for each in asked if each[0].done()][:1]
            asked.remove(have)
            slots.give_back(bulk=have[1], alone=have[2])
            for _ in range(3):
                await asyncio.sleep(0)
        assert slots.held == 0

    asyncio.run(play())


# intake


class Bench:
    def __init__(self, folder: Path, burst: int) -> None:
        self.outbox = MemoryOutbox()
        self.vault = EvidenceVault(FolderStore(folder))
        needs = {kind: frozenset(("answer",)) for kind in KINDS}
        shares = Shares(rate=1, burst=burst, partitions=1)
        admission = Admission(NoBacklog())
        self.intake = Intake(self.outbox, self.vault, POLICIES, "offline", needs, b"k" * 32, admission, shares)
        self.feeds = {topic.name: Feed(topic) for topic in (REQUESTS, BULK_REQUESTS)}

    async def give(self, topic: Topic, name: str, headers: dict[str, bytes] | None = None, **changes: Any) -> None:
        request = {"evaluation_id": name, "query": "q", "answer": "a", "retrieved_passages": [], **changes}
        record, token = self.feeds[topic.name].next(json.dumps(request).encode())
        await self.intake.handle(Record(record.topic, 0, record.offset, b"key", record.value, T0, headers or {}), token)

    def moved(self) -> list[dict[str, bytes]]:
        return [{name: text.encode() for name, text in sent.headers.items()} for sent in self.outbox.on(BULK_REQUESTS)]

    def tasks(self, bulk: bool) -> list[str]:
        return [sent.json["evaluation_id"] for sent in self.outbox.on(judge_topic("grounding", bulk=bulk))]


async def test_beyond_its_share_a_tenant_goes_on_in_the_bulk_lane_and_others_stay(tmp_path: Path) -> None:
    bench = Bench(tmp_path, burst=2)
    for number in range(4):
        await bench.give(REQUESTS, f"a{number}", tenant="a")
    await bench.give(REQUESTS, "b0", tenant="b")
    await bench.give(REQUESTS, "c0")
    assert bench.tasks(bulk=False) == ["a0", "a1", "b0", "c0"]
    assert bench.moved() == [{"moved_from": b"0/2"}, {"moved_from": b"0/3"}]
    moved = bench.outbox.on(BULK_REQUESTS)
    assert [sent.key for sent in moved] == [b"key"] * 2

    for number, headers in enumerate(bench.moved(), 2):
        await bench.give(BULK_REQUESTS, f"a{number}", headers, tenant="a")
    assert bench.tasks(bulk=True) == ["a2", "a3"]
    sources = [sent.json["source"] for sent in bench.outbox.on(RESULTS)[-2:]]
    assert sources == [{"topic": REQUESTS.name, "partition": 0, "offset": offset} for offset in (2, 3)]


async def test_who_takes_the_bulk_lane_by_choice_stays_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path, burst=1)
    for number in range(3):
        await bench.give(BULK_REQUESTS, f"a{number}")
    await bench.give(REQUESTS, "a3")
    assert bench.tasks(bulk=True) == ["a0", "a1", "a2"]
    assert bench.tasks(bulk=False) == ["a3"]
    assert bench.outbox.on(RESULTS)[0].json["source"]["topic"] == BULK_REQUESTS.name


async def test_the_first_request_under_an_id_stands_though_it_is_moved(tmp_path: Path) -> None:
    bench = Bench(tmp_path, burst=1)
    await bench.give(REQUESTS, "other", tenant="a")
    await bench.give(REQUESTS, "same", tenant="a", answer="first")
    await bench.give(REQUESTS, "same", tenant="b", answer="second")
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    assert (letter.headers["reason"], letter.headers["source_offset"]) == ("id_reused", "2")
    (headers,) = bench.moved()
    await bench.give(BULK_REQUESTS, "same", headers, tenant="a", answer="first")
    assert bench.tasks(bulk=True) == ["same"]


async def test_a_moved_request_that_ends_in_a_dead_letter_names_where_its_producer_put_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, burst=1)
    await bench.give(REQUESTS, "a0")
    redriven = {"attempt": b"1", "original": b"glassbox.requests/3/7", "tenant": b"acme"}
    await bench.give(REQUESTS, "a1", {**redriven, "foreign": b"x"})
    (headers,) = bench.moved()
    assert headers == {"moved_from": b"0/1", **redriven}
    await bench.vault.erase("a1", "2023-11-14T22:13:20.000Z")
    await bench.give(BULK_REQUESTS, "a1", headers)
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    named = {name: letter.headers[name] for name in ("reason", "source_topic", "source_offset", "original", "attempt")}
    assert named == {
        "reason": "erased",
        "source_topic": REQUESTS.name,
        "source_offset": "1",
        "original": "glassbox.requests/3/7",
        "attempt": "1",
    }


async def test_only_in_the_bulk_lane_is_it_believed_where_a_request_was_before(tmp_path: Path) -> None:
    bench = Bench(tmp_path, burst=9)
    for topic, said in ((REQUESTS, b"0/99"), (BULK_REQUESTS, b"nonsense")):
        await bench.give(topic, "bad", {"moved_from": said}, answer=" ")
    sources = [(sent.headers["source_topic"], sent.headers["source_offset"]) for sent in bench.outbox.on(DEAD_LETTERS)]
    assert sources == [(REQUESTS.name, "0"), (BULK_REQUESTS.name, "0")]


class BulkLags:
    """Judges that do not come to the end of the bulk lane."""

    async def lags(self, before: int, *, bulk: bool) -> bool:
        return bulk


async def test_while_the_bulk_lane_waits_for_the_judges_the_main_lane_does_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, burst=9)
    object.__setattr__(bench.intake, "admission", Admission(BulkLags(), every_s=0.01))
    waiting = asyncio.create_task(bench.give(BULK_REQUESTS, "same", tenant="a"))
    await asyncio.wait_for(bench.give(REQUESTS, "other", tenant="b"), 10)
    await asyncio.wait_for(bench.give(REQUESTS, "same", tenant="a"), 10)  # nor behind its own twin
    assert bench.tasks(bulk=False) == ["other", "same"]
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
