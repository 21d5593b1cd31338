from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassbox.contract.canonical import canonical
from glassbox.contract.events import Judged, JudgeTask
from glassbox.contract.request import TaskInput
from glassbox.contract.verdict import Failed, Scored
from judges.port import Case, Judgement
from judges.run import answer
from ledger.evidence import EvidenceVault, StoredRequest, salted_digest
from ledger.store import FolderStore
from streams.topics import DEAD_LETTERS, JUDGE, RESULTS
from streams.worker import Worker
from tests.streams.doubles import Feed, MemoryOutbox
from tests.streams.events import OTHER, POLICY

NOW = 1_700_000_000_000


class Bench:
    """A terminology worker whose judge is given."""

    kind = "terminology"
    needs = frozenset(("answer",))

    def __init__(self, folder: Path) -> None:
        self.outbox, self.feed = MemoryOutbox(now=NOW), Feed(JUDGE["terminology"])
        self.vault = EvidenceVault(FolderStore(folder))
        self.judged: list[Case] = []
        self.worker = Worker("terminology", lambda case: answer(self, case), self.outbox, self.vault)

    async def judge(self, case: Case) -> Judgement:
        self.judged.append(case)
        return Judgement((Scored.of("terminology", 0.5),), {"note": "half"}, (b"raw",))

    async def close(self) -> None: ...

    async def stored(self) -> StoredRequest:
        stands = await self.vault.put_request("e1", b'{"answer":"a"}', NOW)
        assert isinstance(stands, StoredRequest)
        return stands

    async def give(self, digest: str, deadline_s: float = 300, appended: int = NOW) -> Judged:
        record, token = self.feed.next(task(digest, deadline_s), appended)
        await self.worker.handle(record, token)
        return Judged.model_validate_json(self.outbox.on(RESULTS)[-1].value or b"")


def task(digest: str, deadline_s: float = 300) -> bytes:
    made = JudgeTask(
        evaluation_id="e1",
        request_digest=digest,
        policy_digest=POLICY.digest,
        intake_run="run1",
        deadline_s=deadline_s,
        settings=POLICY.kind_settings("terminology"),
        input=TaskInput(answer="a"),
    )
    return made.model_dump_json().encode()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "evidence")


def cause(judged: Judged) -> str:
    (verdict,) = judged.verdicts
    assert isinstance(verdict, Failed)
    return verdict.cause


async def test_the_answer_cites_evidence_that_is_in_the_store(bench: Bench) -> None:
    stands = await bench.stored()
    judged = await bench.give(stands.digest)
    assert judged.evidence_digest is not None
    evidence = await bench.vault.evidence("e1", "terminology", judged.evidence_digest, stands.salt)
    assert evidence is not None
    assert judged.evidence_digest == salted_digest(stands.salt, evidence)
    verdict = judged.verdicts[0].model_dump(mode="json")
    assert evidence == canonical({"kind": "terminology", "verdicts": [verdict], "evidence": {"note": "half"}})


async def test_without_its_request_a_task_fails(bench: Bench) -> None:
    assert cause(await bench.give("a" * 64)) == "request_lost"


async def test_a_task_of_another_request_fails(bench: Bench) -> None:
    await bench.stored()
    assert cause(await bench.give(OTHER)) == "request_lost"


async def test_an_erased_request_is_not_judged(bench: Bench) -> None:
    stands = await bench.stored()
    await bench.vault.erase("e1", "2026-01-01T00:00:00.000Z")
    assert cause(await bench.give(stands.digest)) == "erased"
    assert bench.judged == []


async def test_a_task_past_its_deadline_by_broker_time_is_not_run(bench: Bench) -> None:
    stands = await bench.stored()
    await bench.give(stands.digest)
    bench.worker.clock.observe(NOW + 400_000)
    assert cause(await bench.give(stands.digest)) == "expired"
    assert len(bench.judged) == 1


async def test_a_store_that_is_away_until_the_deadline_is_a_failed_verdict(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger.port import StoreUnavailable

    async def away(_: str) -> Any:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(bench.vault, "request", away)
    assert cause(await bench.give("a" * 64, deadline_s=0.3)) == "store_unavailable"


async def test_a_task_that_cannot_be_read_is_a_diagnosis(bench: Bench) -> None:
    record, token = bench.feed.next(b"{}")
    await bench.worker.handle(record, token)
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    assert (letter.headers["reason"], letter.headers["field"]) == ("bad_task", "evaluation_id")


async def test_a_successor_answers_for_a_revoked_task(bench: Bench) -> None:
    stands = await bench.stored()
    record, token = bench.feed.next(task(stands.digest))
    bench.feed.acks.revoke()
    await bench.worker.handle(record, token)
    assert bench.outbox.on(RESULTS) == []
