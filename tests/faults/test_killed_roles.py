"""The promise, measured: every acknowledged request ends in one ledger record or in a dead letter, whatever dies."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassbox.contract.policy import SHIPPED
from glassbox.settings import Settings
from ledger.merkle_log import MerkleLog
from streams.roles import ROLES
from tests.kafka import EITHER
from tests.pipeline import Pipeline, request, until

COUNT = 500


@pytest.fixture(scope="module", params=EITHER)
def pipeline(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    broker = request.getfixturevalue("kafka").empty() if request.param == "kafka" else None
    made = Pipeline(tmp_path_factory.mktemp("killed"), broker=broker)
    try:
        made.start()
        yield made
    finally:
        made.close()


async def records(folder: Path, names: list[str]) -> dict[str, str]:
    """Evaluation id -> trust of each scorecard on the ledger, after an audit of the whole log. The log holds the
    policies and these scorecards, and nothing besides: this is the first that the pipeline was asked."""
    log = MerkleLog.reader(folder / "ledger")
    try:
        audit = await log.audit([Settings(data_dir=folder).signing_key().verifier])
        assert audit.problem is None
        standing = {name: await log.read(name) for name in names}
        assert audit.tree_size == len(SHIPPED) + len(names)
        return {name: record["trust"] for name, record in standing.items() if record}
    finally:
        await log.close()


@pytest.mark.timeout(240)
def test_each_role_killed_once_loses_nothing(pipeline: Pipeline) -> None:
    names = [f"e{n}" for n in range(COUNT)]
    share = COUNT // len(ROLES) + 1
    with pipeline.watching() as read:
        for n, role in enumerate(ROLES):
            # each role dies while it has work: some of it read, some answered, little committed
            pipeline.publish(request(name) for name in names[n * share : (n + 1) * share])
            done = (n * share) // 2
            settled = read(lambda s, done=done: len(s.receipts) >= done, 60)  # type: ignore[misc]
            pipeline.kill(role)
            pipeline.start_role(role)
        pipeline.publish([request("broken", query=" ")])
        settled = read(lambda s: len(s.receipts) == COUNT and bool(s.dead), 120)
    assert set(settled.receipts) == set(names)
    assert {name: len(digests) for name, digests in settled.digests.items()} == dict.fromkeys(names, 1)
    assert [letter["reason"] for letter in settled.dead.values()] == ["contract"]
    standing = asyncio.run(records(pipeline.folder / "data", names))
    assert set(standing) == set(names)
    assert set(standing.values()) == {"0.960000"}


@pytest.mark.timeout(240)
def test_two_workers_share_and_one_takes_over(pipeline: Pipeline) -> None:
    pipeline.start(["terminology-2"])

    def judged(name: str) -> float:
        return pipeline.metric(name, "glassbox_verdicts_total")

    first, second = ({f"{wave}{n}" for n in range(60)} for wave in "ab")
    with pipeline.watching() as read:  # on the embedded broker it may see the last of the other test once more
        until(lambda: pipeline.metric("terminology", "glassbox_assigned_partitions") == 2, 60, "partitions shared")
        pipeline.publish(request(name) for name in sorted(first))
        settled = read(lambda s: s.receipts.keys() >= first, 60)
        assert settled.receipts.keys() >= first
        assert judged("terminology") > 0
        assert judged("terminology-2") > 0
        pipeline.kill("terminology", signal.SIGTERM)
        assert pipeline.roles["terminology"].exit_code == 0
        pipeline.publish(request(name) for name in sorted(second))
        settled = read(lambda s: s.receipts.keys() >= first | second, 60)
    assert settled.receipts.keys() >= first | second
    assert all(len(digests) == 1 for digests in settled.digests.values())
