from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassbox.contract.canonical import canonical
from glassbox.contract.documents import DocumentRules
from glassbox.contract.events import Judged, JudgeTask
from glassbox.contract.request import GivenDocument, JudgeInput, TaskInput, TextReference
from glassbox.contract.verdict import Failed, Scored
from judges.port import Case, Judgement
from judges.run import answer
from ledger.documents import StoredDocuments
from ledger.evidence import EvidenceVault, StoredRequest, salted_digest
from ledger.port import StoreUnavailable
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
    async def away(_: str) -> Any:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(bench.vault, "request", away)
    assert cause(await bench.give("a" * 64, deadline_s=0.3)) == "store_unavailable"


def referring(digest: str, deadline_s: float, *references: TextReference) -> bytes:
    made = JudgeTask.model_validate_json(task(digest, deadline_s))
    given = TaskInput(answer="a", source_documents=[GivenDocument(reference=reference) for reference in references])
    return made.model_copy(update={"input": given}).model_dump_json().encode()


async def test_what_a_task_refers_to_is_read_before_it_is_judged(bench: Bench, tmp_path: Path) -> None:
    documents = StoredDocuments(DocumentRules((f"file://{tmp_path}/documents/",)))
    bench.worker = replace(bench.worker, documents=documents)
    stands = await bench.stored()
    reference = await documents.put(b"the whole text")
    await bench.worker.handle(*bench.feed.next(referring(stands.digest, 300, reference), NOW))
    (case,) = bench.judged
    assert [document.text for document in case.input.source_documents or ()] == ["the whole text"]
    (path,) = (tmp_path / "documents").rglob(reference.sha256)
    path.write_bytes(b"another text")
    await bench.worker.handle(*bench.feed.next(referring(stands.digest, 300, reference), NOW))
    path.unlink()
    await bench.worker.handle(*bench.feed.next(referring(stands.digest, 300, reference), NOW))
    said = [Judged.model_validate_json(sent.value or b"") for sent in bench.outbox.on(RESULTS)]
    assert list(map(cause, said[1:])) == ["document_changed", "document_missing"]
    assert len(bench.judged) == 1


async def test_documents_that_are_away_are_waited_for_until_the_deadline(bench: Bench) -> None:
    class Away:
        tried = 0

        async def read(self, given: TaskInput) -> JudgeInput:
            self.tried += 1
            raise StoreUnavailable("the bucket does not answer")

    away = Away()
    bench.worker = replace(bench.worker, documents=away)
    stands = await bench.stored()
    reference = TextReference(uri="s3://docs/a", sha256="ab" * 32, size=1)
    await bench.worker.handle(*bench.feed.next(referring(stands.digest, 0.5, reference), NOW))
    assert cause(Judged.model_validate_json(bench.outbox.on(RESULTS)[-1].value or b"")) == "store_unavailable"
    assert away.tried > 1


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
