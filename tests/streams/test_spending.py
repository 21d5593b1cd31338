"""Sampling and the budget of a day: what is not judged is announced all the same, and ends in an incomplete record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.events import Usage
from glassbox.contract.record import check_record, evidence_digest
from glassbox.contract.spending import DAY_MS, Budget, Rule, Spending
from glassbox.contract.verdict import KINDS
from streams.join import Card, step
from streams.spending import Gate, Tally
from streams.topics import RECEIPTS, RESULTS
from tests.kafka import EITHER
from tests.pipeline import Pipeline, request, until
from tests.streams.events import POLICY, announced, judged
from tests.streams.test_intake import Bench, raw

T0 = 1_700_000_000_000


def answer(tokens: int) -> bytes:
    used = Usage(model="m", calls=1, prompt_tokens=tokens, completion_tokens=0)
    return judged("grounding").model_copy(update={"usage": (used,)}).model_dump_json().encode()


class Spent:
    """A meter that says what it is told to, and counts how often it is asked."""

    def __init__(self, tokens: int) -> None:
        self.said, self.asked = tokens, list[int]()

    async def tokens(self, day: int) -> int:
        self.asked.append(day)
        return self.said


def gate(tokens_per_day: int, spent: Spent, every_s: float = 0.0) -> Gate:
    return Gate(Spending(budget=Budget(tokens_per_day=tokens_per_day)), b"k" * 32, spent, every_s)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "evidence")


messages = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**6)), max_size=20)


@given(messages, st.randoms(use_true_random=False), st.integers(0, 4))
def test_the_day_costs_the_same_whoever_reads_the_log_and_when(
    spent: list[tuple[int, int]], random: object, day: int
) -> None:
    """Partitions come in any order; a restart reads the day again from its beginning or from before it."""
    newest = max((when for when, _ in spent), default=0)
    one, other, restarted = Tally(), Tally(), Tally()
    for when, tokens in spent:
        one.add(answer(tokens), when * DAY_MS + 5)
    random.shuffle(spent)  # type: ignore[attr-defined]
    for when, tokens in spent:
        other.add(answer(tokens), when * DAY_MS + 7)
        if when == newest:
            restarted.add(answer(tokens), when * DAY_MS)
    wanted = sum(tokens for when, tokens in spent if when == newest) if day <= newest else 0
    assert one.on(day) == other.on(day) == restarted.on(day) == wanted


def test_what_is_no_answer_costs_nothing() -> None:
    tally = Tally()
    for value in (None, b"", b"nope", announced().model_dump_json().encode(), answer(0)):
        tally.add(value, T0)
    assert tally.on(T0 // DAY_MS) == 0


async def test_a_skipped_request_is_announced_without_tasks(bench: Bench) -> None:
    nothing = Gate(Spending(sampling=(Rule(rate=Decimal(0)),)), b"k" * 32)
    bench.intake = replace(bench.intake, gate=nothing)
    await bench.give(raw())
    await bench.give(raw())
    assert {sent.topic for sent in bench.outbox.sent} == {RESULTS.name}
    assert [(event.kinds, event.skipped) for event in bench.announced()] == [((), "sampled_out")] * 2


async def test_a_spent_budget_skips_and_the_next_day_judges(bench: Bench) -> None:
    spent = Spent(99)
    bench.intake = replace(bench.intake, gate=gate(100, spent))
    await bench.give(raw())
    spent.said = 100
    await bench.give(raw(evaluation_id="e2"))
    spent.said = 0
    await bench.give(raw(evaluation_id="e3"))
    assert [event.skipped for event in bench.announced()] == [None, "budget_spent", None]
    assert len(set(spent.asked)) == 1


async def test_the_log_is_asked_once_for_many_requests(bench: Bench) -> None:
    spent = Spent(1)
    bench.intake = replace(bench.intake, gate=gate(100, spent, every_s=60.0))
    for n in range(5):
        await bench.give(raw(evaluation_id=f"e{n}"))
    assert len(spent.asked) == 1


async def test_a_skipped_request_that_has_its_record_gets_the_receipt_again(bench: Bench) -> None:
    bench.intake = replace(bench.intake, gate=gate(0, Spent(0)))
    await bench.give(raw())
    (event,) = bench.announced()
    record = {"request_digest": event.request_digest, "evaluation_id": "e1"}
    receipt = {"evaluation_id": "e1", "result": "created", "record": record, "record_digest": "d" * 64}
    await bench.vault.put_receipt("e1", {**receipt, "ledger": "merkle", "proof": {}, "tenant": None})
    bench.intake = replace(bench.intake, gate=Gate())
    await bench.give(raw())
    assert len(bench.announced()) == 1
    assert [sent.json["result"] for sent in bench.outbox.on(RECEIPTS)] == ["duplicate"]


@pytest.mark.parametrize("cause", ["sampled_out", "budget_spent"])
@pytest.mark.parametrize("before", [(), ("grounding", "structure")], ids=["alone", "after answers"])
def test_the_announcement_closes_what_it_opens(cause: str, before: tuple[str, ...]) -> None:
    """Answers of a first delivery, whose intake died before it announced, change nothing."""
    window = None
    for kind in before:
        window, emission = step(window, judged(kind), T0)
        assert emission is None
    skipped = announced().model_copy(update={"kinds": (), "skipped": cause})
    window, emission = step(window, skipped, T0 + 1)
    assert window is None
    assert isinstance(emission, Card)
    record = emission.record
    check_record(record, POLICY.document)
    assert (record["outcome"], record["reasons"], record["trust"]) == ("incomplete", ["no_scored_part"], None)
    assert {(part["state"], part["cause"]) for part in record["parts"]} == {("not_applicable", cause)}
    assert record["evidence_digest"] == evidence_digest({})


def test_a_request_that_was_announced_to_judges_is_judged_though_the_budget_is_spent_when_it_comes_again() -> None:
    """Intake died before it acknowledged; the day's tokens were spent meanwhile, by these very judges perhaps."""
    first = announced()
    window, _ = step(None, first, T0)
    again = first.model_copy(update={"kinds": (), "skipped": "budget_spent", "intake_run": "f" * 16})
    window, emission = step(window, again, T0 + 1)
    assert emission is None
    for kind in first.kinds:
        window, emission = step(window, judged(kind), T0 + 2)
    assert isinstance(emission, Card)
    assert {part["state"] for part in emission.record["parts"]} == {"scored"}


SOME = """
[[sampling]]
tenant = "sampled"
rate = 0

[budget]
tokens_per_day = 1

[policy.offline]
deadline_s = 30
"""


@pytest.fixture(scope="module", params=EITHER)
def pipeline(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """Two intakes, and a judge whose every answer spends the whole day's budget."""
    broker = request.getfixturevalue("kafka").empty() if request.param == "kafka" else None
    folder: Path = tmp_path_factory.mktemp("spending")
    (folder / "glassbox.toml").write_text(SOME)
    made = Pipeline(folder, environment={"GLASSBOX_CONFIG": str(folder / "glassbox.toml")}, broker=broker)
    try:
        made.start(["intake", *KINDS, "join", "committer"])
        yield made
    finally:
        made.close()


@pytest.mark.timeout(180)
def test_nothing_is_lost_when_the_day_is_spent(pipeline: Pipeline) -> None:
    def causes(name: str) -> set[str | None]:
        return {part["cause"] for part in settled.records[name]["parts"]}

    with pipeline.watching() as read:
        pipeline.publish([request("first"), request("sampled", tenant="sampled")])
        settled = read(lambda s: len(s.receipts) == 2, 60)
        assert (causes("first"), causes("sampled")) == ({None}, {"sampled_out"})
        until(lambda: pipeline.metric("intake", "glassbox_messages_consumed_total") == 2, 20, "both taken")

        def spent() -> bool:  # the log is asked once a second, so the next may come too early
            nonlocal settled
            name = f"second-{time.monotonic()}"
            pipeline.publish([request(name)])
            settled = read(lambda s: name in s.receipts, 60)
            return causes(name) == {"budget_spent"}

        until(spent, 30, "the day is spent")
        pipeline.kill("intake")
        pipeline.start_role("intake-2")  # another one, which has seen nothing yet
        pipeline.publish([request("third"), request("first")])
        settled = read(lambda s: "third" in s.receipts and s.receipts["first"] > 1, 60)
    assert causes("third") == {"budget_spent"}
    assert settled.results["created"] == len(settled.receipts)
    assert set(settled.results) == {"created", "duplicate"}  # a kill repeats some
    assert all(len(digests) == 1 for digests in settled.digests.values())
    assert pipeline.metric("intake-2", "glassbox_budget_spent_tokens") > 1
    assert not settled.dead
