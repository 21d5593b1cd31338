from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassbox.contract.documents import DocumentRules
from glassbox.contract.events import RESULT, Announced, JudgeTask
from glassbox.contract.policy import load_policies
from glassbox.contract.verdict import KINDS
from ledger.evidence import EvidenceVault
from ledger.port import StoredRequest
from ledger.store import FolderStore
from streams.admission import Admission
from streams.intake import Intake
from streams.shares import Shares
from streams.topics import DEAD_LETTERS, JUDGE, RECEIPTS, RESULTS, judge_topic
from tests.streams.doubles import Feed, MemoryOutbox, NoBacklog
from tests.streams.events import POLICIES

GOOD: dict[str, Any] = {
    "evaluation_id": "e1",
    "query": "Who wrote it?",
    "answer": "Ada wrote it.",
    "retrieved_passages": ["Ada wrote it in 1843."],
}


REFERENCE = {"id": "p", "reference": {"uri": "s3://docs/a", "sha256": "ab" * 32, "size": 10}}


def raw(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


class Bench:
    def __init__(self, folder: Path) -> None:
        from streams.topics import REQUESTS

        self.outbox, self.feed = MemoryOutbox(), Feed(REQUESTS)
        self.vault = EvidenceVault(FolderStore(folder))
        needs = {kind: frozenset(("query", "answer", "retrieved_passages")) for kind in KINDS}
        admission, shares = Admission(NoBacklog()), Shares(rate=1, burst=1000, partitions=1)
        self.intake = Intake(self.outbox, self.vault, POLICIES, "offline", needs, b"k" * 32, admission, shares)

    async def give(self, value: bytes | None) -> None:
        record, token = self.feed.next(value)
        await self.intake.handle(record, token)

    def reasons(self) -> list[tuple[str, str]]:
        return [(sent.headers["reason"], sent.headers.get("field", "")) for sent in self.outbox.on(DEAD_LETTERS)]

    def announced(self) -> list[Announced]:
        events = [RESULT.validate_json(sent.value or b"") for sent in self.outbox.on(RESULTS)]
        return [event for event in events if isinstance(event, Announced)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "evidence")


async def test_every_task_is_in_the_log_before_the_announcement(bench: Bench) -> None:
    await bench.give(raw())
    topics = [sent.topic for sent in bench.outbox.sent]
    assert sorted(topics[:-1]) == sorted(topic.name for topic in JUDGE.values())
    assert topics[-1] == RESULTS.name
    (event,) = bench.announced()
    stored = await bench.vault.request("e1")
    tasks = [JudgeTask.model_validate_json(bench.outbox.on(topic)[0].value or b"") for topic in JUDGE.values()]
    assert {task.request_digest for task in tasks} == {event.request_digest} == {getattr(stored, "digest", None)}
    assert {task.intake_run for task in tasks} == {event.intake_run}
    assert event.kinds == tuple(KINDS)


async def test_a_text_by_reference_travels_as_such_and_only_from_a_named_place(bench: Bench) -> None:
    referring = raw(retrieved_passages=[REFERENCE])
    await bench.give(referring)
    assert bench.reasons() == [("contract", "retrieved_passages[0].reference.uri")]
    bench.intake = replace(bench.intake, documents=DocumentRules(("s3://docs/",)))
    await bench.give(referring)
    (sent,) = bench.outbox.on(JUDGE["grounding"])
    task = JudgeTask.model_validate_json(sent.value or b"")
    assert [given.model_dump() for given in task.input.references()] == [REFERENCE["reference"]]
    stored = await bench.vault.request("e1")
    assert isinstance(stored, StoredRequest)
    assert json.loads(stored.request)["retrieved_passages"] == [REFERENCE]


async def test_a_judge_of_ones_own_gets_its_task(bench: Bench) -> None:
    toml = "[policy.offline.judges.tone]\nweight = 1\nparts.polite = { weight = 1, at_least = 2 }"
    mine = load_policies(toml)
    needs = {**bench.intake.needs, "tone": frozenset(("answer",))}
    intake = replace(bench.intake, policies=mine, needs=needs)
    await intake.handle(*bench.feed.next(raw()))
    (task,) = bench.outbox.on(judge_topic("tone"))
    assert task.topic == "glassbox.judge.tone"
    assert set(task.json["input"]) == {"answer"}
    assert task.json["settings"]["polite"]["at_least"] == "2.000000"
    (event,) = bench.announced()
    assert event.kinds == (*KINDS, "tone")
    assert event.policy == mine["offline"].document


async def test_a_task_carries_only_what_its_kind_needs(bench: Bench) -> None:
    await bench.give(raw(reference_answer="Ada.", session_id="s1", metadata={"a": "b"}))
    task = bench.outbox.on(JUDGE["terminology"])[0].json
    assert set(task["input"]) == {"query", "answer", "retrieved_passages"}
    (event,) = bench.announced()
    assert event.session is not None
    assert event.session != "s1"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (b"nope", "body"),
        (b"[1, 2]", "body"),
        (None, "body"),
        (b"", "body"),
        (b"\xff\xfe", "body"),
        (raw(query=" \n"), "query"),
        (b'{"query": "q"}', "answer"),
        (raw(retrieved_passages="text"), "retrieved_passages"),
        (raw(chunk_scores=[1, 2]), "chunk_scores"),
        (raw().replace(b'"e1"', b'"e1", "chunk_scores": [NaN]'), "chunk_scores[0]"),
        (raw().replace(b"Who wrote it?", b"\\ud800"), "query"),
        (raw().replace(b'"e1"', b'"e1", "evaluation_id": "e2"'), "evaluation_id"),
        (raw(retrieved_passages=["p"] * 1001), "retrieved_passages"),
        (raw(answer="x" * 5_000_000), "body"),
        (raw(answer=None), "answer"),
        (raw(schema_version="2"), "schema_version"),
        (raw(policy="strict"), "policy"),
        (raw(evaluation_id="run:1"), "evaluation_id"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_bad_input_is_a_dead_letter_that_says_why(bench: Bench, value: bytes | None, field: str) -> None:
    await bench.give(value)
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    assert bench.reasons() == [("contract", field)]
    assert letter.value == value
    assert letter.headers["source_offset"] == "0"
    assert letter.headers["detail"]
    await bench.give(raw())
    assert len(bench.announced()) == 1


@pytest.mark.parametrize(
    ("value", "tenant"),
    [
        (b"nope", "acme"),
        (raw(answer=" "), "acme"),
        (raw(supersedes="never"), None),  # it can be read, and names none
        (raw(tenant="other", retrieved_passages=[REFERENCE]), "other"),
    ],
)
async def test_a_dead_letter_is_the_tenants_also_where_the_request_cannot_be_read(
    bench: Bench, value: bytes, tenant: str | None
) -> None:
    record, token = bench.feed.next(value)
    await bench.intake.handle(replace(record, headers={"tenant": b"acme"}), token)
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    assert letter.headers.get("tenant") == tenant


async def test_the_same_content_under_one_id_keeps_its_salt(bench: Bench) -> None:
    await bench.give(raw())
    await bench.give(raw())
    first, second = bench.announced()
    assert first.request_digest == second.request_digest
    assert first.intake_run != second.intake_run
    assert bench.reasons() == []


async def test_another_content_under_a_used_id_is_a_dead_letter(bench: Bench) -> None:
    await bench.give(raw())
    await bench.give(raw(answer="Charles wrote it."))
    assert bench.reasons() == [("id_reused", "evaluation_id")]
    assert len(bench.announced()) == 1


async def test_of_two_contents_at_once_the_first_in_the_log_stands(bench: Bench) -> None:
    contents = [raw(), raw(answer="Charles wrote it."), raw()]
    records = [bench.feed.next(content) for content in contents]
    await asyncio.gather(*(bench.intake.handle(record, token) for record, token in records))
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    assert (letter.headers["reason"], letter.headers["source_offset"]) == ("id_reused", "1")
    assert len(bench.announced()) == 2


async def test_without_an_id_the_content_decides(bench: Bench) -> None:
    value = json.loads(raw())
    del value["evaluation_id"]
    await bench.give(json.dumps(value).encode())
    await bench.give(json.dumps(dict(reversed(value.items())), indent=1).encode())
    first, second = bench.announced()
    assert first.evaluation_id == second.evaluation_id
    assert len(first.evaluation_id) == 64


async def receipted(bench: Bench, digest: Callable[[str], str]) -> None:
    (event,) = bench.announced()
    record = {"request_digest": digest(event.request_digest), "evaluation_id": "e1"}
    receipt = {"evaluation_id": "e1", "result": "created", "record": record, "record_digest": "d" * 64}
    await bench.vault.put_receipt("e1", {**receipt, "ledger": "merkle", "proof": {}, "tenant": None})


async def test_a_request_that_has_its_record_gets_the_receipt_again(bench: Bench) -> None:
    await bench.give(raw())
    await receipted(bench, lambda digest: digest)
    await bench.give(raw())
    assert len(bench.announced()) == 1
    assert [sent.json["result"] for sent in bench.outbox.on(RECEIPTS)] == ["duplicate"]


async def test_a_receipt_of_another_request_means_that_the_store_lost_one(bench: Bench) -> None:
    await bench.give(raw())
    await receipted(bench, lambda _: "e" * 64)
    await bench.give(raw())
    assert bench.reasons() == [("request_lost", "")]


async def test_an_erased_id_leaves_no_content(bench: Bench) -> None:
    await bench.give(raw())
    await bench.vault.erase("e1", "2026-01-01T00:00:00.000Z")
    await bench.give(raw())
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    assert (letter.headers["reason"], letter.value) == ("erased", None)


async def test_a_message_that_the_broker_never_takes_is_a_dead_letter(bench: Bench) -> None:
    bench.outbox.too_large.add(JUDGE["grounding"].name)
    await bench.give(raw())
    assert bench.reasons() == [("too_large", "body")]
    assert bench.announced() == []


async def test_unknown_fields_are_left_out(bench: Bench) -> None:
    await bench.give(raw(colour="red"))
    assert len(bench.announced()) == 1


async def test_what_supersedes_points_to_must_have_a_record(bench: Bench) -> None:
    await bench.give(raw(evaluation_id="e2", supersedes="e1"))
    assert bench.reasons() == [("contract", "supersedes")]
    await bench.vault.put_receipt("e1", {"record": {"evaluation_id": "e1"}})
    await bench.give(raw(evaluation_id="e2", supersedes="e1"))
    assert [event.supersedes for event in bench.announced()] == ["e1"]
