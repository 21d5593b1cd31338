from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import streams.committer
from glassbox.contract.events import Claim, PolicyRegistration, Receipt, Review, Scorecard, Source, reference_record
from glassbox.contract.verdict import KINDS
from ledger.checkpoint import Signer
from ledger.evidence import EvidenceVault
from ledger.merkle_log import MerkleLog
from ledger.store import FolderStore
from streams.committer import CommitQueue, Committer, next_batch
from streams.join import Card, step
from streams.topics import DEAD_LETTERS, RECEIPTS, SCORECARDS
from tests.streams.doubles import Feed, MemoryOutbox
from tests.streams.events import OTHER, POLICY, announced, judged

NOW = 1_700_000_000_000
REGISTRATION = PolicyRegistration(policy=POLICY.document, record=reference_record("policy", POLICY.digest, NOW))


def scorecard(evaluation_id: str = "e1", score: float = 0.9, digest: str = "a" * 64) -> Scorecard:
    window = None
    for event in (announced(evaluation_id, digest), *(judged(k, score, evaluation_id, digest) for k in KINDS)):
        window, emission = step(window, event, NOW)
    assert isinstance(emission, Card)
    return Scorecard(tenant="acme", record=emission.record)


def claim(digest: str, evaluation_id: str = "e1") -> Claim:
    source = Source(topic="glassbox.requests", partition=3, offset=77)
    return Claim(evaluation_id=evaluation_id, request_digest=digest, source=source, tenant=None)


class Bench:
    def __init__(self, folder: Path) -> None:
        self.ledger = MerkleLog.committer(folder / "ledger", Signer.generate("log.test"))
        self.vault = EvidenceVault(FolderStore(folder / "evidence"))
        self.outbox, self.feed = MemoryOutbox(), Feed(SCORECARDS)
        self.heard: list[str | None] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.logged: dict[str, PolicyRegistration] = {}

        async def registration(digest: str) -> PolicyRegistration | None:
            return self.logged.get(digest)

        release = self.feed.acks.release
        committer = Committer(self.ledger, self.vault, self.outbox, release, self.heard.append, registration)
        self.queue = CommitQueue(committer, self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, None], ended: Callable[[], object]) -> None:
        self.tasks.append(asyncio.ensure_future(work))
        self.tasks[-1].add_done_callback(lambda _: ended())

    async def give(self, *values: Scorecard | Claim | Review | PolicyRegistration | bytes) -> None:
        for value in values:
            raw = value if isinstance(value, bytes) else value.model_dump_json().encode()
            await self.queue.on_record(*self.feed.next(raw))
        while self.tasks:
            await self.tasks.pop()

    def receipts(self) -> list[tuple[str, str]]:
        found = [Receipt.model_validate_json(sent.value or b"") for sent in self.outbox.on(RECEIPTS)]
        return [(r.evaluation_id, r.result) for r in found if not r.evaluation_id.startswith("policy:")]

    def letters(self) -> list[tuple[str, str, str]]:
        return [
            (sent.headers["reason"], sent.headers["source_topic"], sent.headers["source_offset"])
            for sent in self.outbox.on(DEAD_LETTERS)
        ]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.ledger.close()
    await made.vault.close()


async def test_a_scorecard_gets_a_record_and_a_receipt_with_proof(bench: Bench) -> None:
    await bench.give(REGISTRATION, scorecard())
    receipt = Receipt.model_validate_json(bench.outbox.on(RECEIPTS)[-1].value or b"")
    assert (receipt.result, receipt.ledger, receipt.tenant) == ("created", "merkle", "acme")
    assert receipt.proof["checkpoint"].startswith("log.test\n")
    assert receipt.record == scorecard().record == await bench.ledger.read("e1")
    assert await bench.vault.receipt("e1") == receipt.model_dump(mode="json")
    assert bench.feed.acknowledged == [0, 1]


async def test_the_same_card_again_exists(bench: Bench) -> None:
    await bench.give(REGISTRATION, scorecard(), scorecard())
    assert bench.receipts() == [("e1", "created"), ("e1", "exists")]


async def test_other_scores_for_the_same_request_get_the_standing_record(bench: Bench) -> None:
    await bench.give(REGISTRATION, scorecard(score=0.9), scorecard(score=0.4))
    assert bench.receipts() == [("e1", "created"), ("e1", "duplicate")]
    record = await bench.ledger.read("e1")
    assert record is not None
    assert record["trust"] == "0.900000"
    assert bench.letters() == []


async def test_another_request_under_a_known_id_is_a_lost_request(bench: Bench) -> None:
    await bench.give(REGISTRATION, scorecard(), scorecard(digest=OTHER))
    assert bench.letters() == [("request_lost", "glassbox.scorecards", "2")]
    assert bench.feed.acknowledged == [0, 1, 2]


async def test_the_ledger_decides_a_claim(bench: Bench) -> None:
    await bench.give(REGISTRATION, scorecard(), claim("a" * 64), claim(OTHER))
    assert bench.receipts() == [("e1", "created"), ("e1", "duplicate")]
    assert bench.letters() == [("request_lost", "glassbox.requests", "77")]


async def test_a_card_that_breaks_arithmetic_is_refused_for_good(bench: Bench) -> None:
    card = scorecard()
    wrong = card.model_copy(update={"record": {**card.record, "trust": "1.000000"}})
    await bench.give(REGISTRATION, wrong, scorecard("e2"))
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    assert (letter.headers["reason"], letter.headers["field"]) == ("refused", "trust")
    assert bench.receipts() == [("e2", "created")]


async def test_an_unregistered_policy_is_waited_for(bench: Bench) -> None:
    await bench.queue.on_record(*bench.feed.next(scorecard().model_dump_json().encode()))
    while not bench.heard:
        await asyncio.sleep(0.01)
    assert bench.feed.acknowledged == []
    await bench.ledger.register_policy(POLICY.document, "2026-01-01T00:00:00.000Z")
    while bench.tasks:
        await bench.tasks.pop()
    assert bench.receipts() == [("e1", "created")]
    assert bench.heard[-1] is None
    assert bench.outbox.on(DEAD_LETTERS) == []


async def test_a_registration_is_not_queued_behind_the_scorecard_that_waits_for_it(bench: Bench) -> None:
    await bench.queue.on_record(*bench.feed.next(scorecard().model_dump_json().encode()))
    while not bench.heard:
        await asyncio.sleep(0.01)
    await bench.give(REGISTRATION)
    assert bench.receipts() == [("e1", "created")]
    assert bench.feed.acknowledged == [0, 1]


async def test_a_registration_further_on_in_the_log_than_is_read_is_found(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.committer, "QUEUE", 4)
    bench.logged[POLICY.digest] = REGISTRATION
    await bench.give(*(scorecard(f"e{n}") for n in range(20)), REGISTRATION)
    assert len(bench.receipts()) == 20
    assert bench.feed.acknowledged == list(range(21))
    assert bench.heard[-1] is None


async def test_what_cannot_be_read_is_a_dead_letter(bench: Bench) -> None:
    await bench.give(b'{"type": "scorecard", "tenant": null, "record": {}}', b"nonsense", REGISTRATION, scorecard())
    assert [reason for reason, *_ in bench.letters()] == ["bad_entry", "bad_entry"]
    assert bench.receipts() == [("e1", "created")]


async def test_a_batch_never_has_an_id_twice(bench: Bench) -> None:
    committer_entries = []
    for n, name in enumerate(("e1", "e2", "e1", "e3")):
        record, token = bench.feed.next(scorecard(name).model_dump_json().encode(), NOW + n)
        entry = await bench.queue._committer.parse(record, token)
        assert entry is not None
        committer_entries.append(entry)
    assert next_batch(committer_entries) == 2
    assert next_batch(committer_entries[2:]) == 2


def superseding(evaluation_id: str, reference: str) -> Scorecard:
    card = scorecard(evaluation_id)
    return card.model_copy(update={"record": {**card.record, "supersedes": reference}})


async def test_a_card_ahead_of_the_one_it_supersedes_waits_and_holds_up_nobody(bench: Bench) -> None:
    await bench.give(REGISTRATION, superseding("e2", "e1"), claim("a" * 64, "e2"), scorecard("e3"))
    assert bench.receipts() == [("e3", "created")]
    assert bench.feed.acknowledged == [0]  # in order: what waits holds back those after it
    await bench.queue.tick()
    await bench.give()
    assert bench.receipts() == [("e3", "created")]
    assert any("e1 is not on the ledger" in (sentence or "") for sentence in bench.heard)
    await bench.give(scorecard("e1"))
    await bench.queue.tick()
    await bench.give()
    assert sorted(bench.receipts()) == [("e1", "created"), ("e2", "created"), ("e2", "duplicate"), ("e3", "created")]
    assert bench.letters() == []
    assert bench.feed.acknowledged == [0, 1, 2, 3, 4]


async def test_a_review_waits_for_the_scorecard_that_it_points_at(bench: Bench) -> None:
    review = Review(
        tenant="acme",
        record=reference_record("review", "ab" * 32, NOW, "e1"),
        judge="semantic_faithfulness",
        part="faithfulness",
        agrees=False,
        met=True,
        method_digest=None,
        reviewer="cd" * 32,
    )
    await bench.give(REGISTRATION, review)
    assert await bench.ledger.read(f"review:{'ab' * 32}") is None
    card = scorecard()
    await bench.give(card)
    await bench.queue.tick()
    await bench.give()
    assert await bench.ledger.read(f"review:{'ab' * 32}") == review.record
    assert await bench.ledger.read("e1") == card.record, "which stands as it was"
    receipt = Receipt.model_validate_json(bench.outbox.on(RECEIPTS)[-1].value or b"")
    assert (receipt.tenant, receipt.record) == ("acme", review.record)
    assert bench.receipts() == [("e1", "created"), (receipt.evaluation_id, "created")]


async def test_work_that_was_cancelled_before_its_first_step_stops_nobody(bench: Bench) -> None:
    await bench.give(REGISTRATION)
    first, token = bench.feed.next(scorecard().model_dump_json().encode())
    await bench.queue.on_record(first, token)
    bench.tasks.pop().cancel()  # as a rebalance does with what is left
    bench.feed.acks.revoke()
    bench.queue.clear()
    bench.feed.acks.assign(2)
    again = bench.feed.acks.take(first.topic, first.partition, first.offset, 2, lambda: None)
    assert again is not None
    await bench.queue.on_record(first, again)
    async with asyncio.timeout(5):
        while not bench.receipts():
            await asyncio.sleep(0.01)
    assert bench.receipts() == [("e1", "created")]
