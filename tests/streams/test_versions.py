"""A rolling upgrade: messages of a later minor version are read by this one, which leaves out what it does not know."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from glassbox.contract.verdict import KINDS
from ledger.port import StoredRequest
from streams.topics import DEAD_LETTERS, SCORECARDS
from tests.streams import test_committer, test_joiner, test_worker
from tests.streams.events import announced, judged, newer


def of_a_newer_sender(event: BaseModel) -> bytes:
    return json.dumps(newer(event.model_dump(mode="json"))).encode()


async def test_a_join_reads_newer_announcements_and_answers() -> None:
    plain, later = test_joiner.Bench(), test_joiner.Bench()
    for event in (announced(), *map(judged, KINDS)):
        plain.join.on_record(*plain.feed.next(event.model_dump_json().encode()))
        later.join.on_record(*later.feed.next(of_a_newer_sender(event)))
    for bench in (plain, later):
        for task in bench.tasks:
            await task
    assert not later.outbox.on(DEAD_LETTERS)
    assert [sent.json for sent in later.outbox.on(SCORECARDS)] == [sent.json for sent in plain.outbox.on(SCORECARDS)]


async def test_a_worker_reads_newer_tasks(tmp_path: Path) -> None:
    bench = test_worker.Bench(tmp_path)
    stands = await bench.stored()
    assert isinstance(stands, StoredRequest)
    later = json.dumps(newer(json.loads(test_worker.task(stands.digest)))).encode()
    await bench.worker.handle(*bench.feed.next(later))
    assert not bench.outbox.on(DEAD_LETTERS)
    assert len(bench.judged) == 1


async def test_a_committer_reads_newer_entries_but_no_record_of_another_version(tmp_path: Path) -> None:
    bench = test_committer.Bench(tmp_path)
    await bench.give(of_a_newer_sender(test_committer.REGISTRATION), of_a_newer_sender(test_committer.scorecard()))
    assert [name for name, _ in bench.receipts()][-1] == "e1"
    other = test_committer.scorecard("e2").model_dump(mode="json")
    other["record"]["schema_version"] = "2"
    await bench.give(json.dumps(other).encode())
    (letter,) = bench.outbox.on(DEAD_LETTERS)
    assert (letter.headers["reason"], letter.headers["field"]) == ("refused", "schema_version")
    await bench.ledger.close()
