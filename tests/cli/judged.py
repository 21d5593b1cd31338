"""Requests judged into a data folder by the roles' own code in this process, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from glassbox.cli.wiring import make_judge, own_judges
from glassbox.contract.events import RESULT, rfc3339
from glassbox.contract.policy import Policy
from glassbox.settings import Settings
from judges.llm import EndpointClient
from judges.port import NEEDS, Judge
from judges.run import answer
from ledger.evidence import EvidenceVault
from ledger.merkle_log import MerkleLog
from ledger.store import FolderStore
from streams.intake import Intake
from streams.join import Card, step
from streams.topics import REQUESTS, RESULTS, judge_topic
from streams.worker import Worker
from tests.streams.doubles import Feed, MemoryOutbox

NOW = 1_700_000_000_000


def settings_of(folder: Path) -> Settings:
    return Settings(data_dir=folder)


async def judge_into(
    folder: Path,
    requests: Iterable[bytes],
    client: EndpointClient,
    policies: Mapping[str, Policy],
    policy: str,
    replaced: Mapping[str, Judge],
) -> None:
    """Judge requests and put their records on the folder's ledger. `replaced`: judges by kind in place of the real
    ones."""
    settings = settings_of(folder)
    vault = EvidenceVault(FolderStore(settings.evidence_path))
    ledger = MerkleLog.committer(settings.ledger_path, settings.signing_key())
    judges = {kind: replaced.get(kind) or make_judge(kind, client) for kind in policies[policy].kinds()}
    needs = {**NEEDS, **{kind: own.needs for kind, own in own_judges([policies[policy]]).items()}}
    outbox, windows, records = MemoryOutbox(now=NOW), dict[str, Any](), list[dict[str, Any]]()
    intake = Intake(outbox, vault, policies, policy, needs, settings.id_key())
    requested = Feed(REQUESTS)
    for raw in requests:
        await intake.handle(*requested.next(raw, outbox.now))
    for kind, judge in judges.items():
        worker = Worker(kind, lambda case, judge=judge: answer(judge, case), outbox, vault)
        tasks = Feed(judge_topic(kind))
        await asyncio.gather(
            *(worker.handle(*tasks.next(task.value, outbox.now)) for task in outbox.on(judge_topic(kind)))
        )
        await judge.close()
    results = [(RESULT.validate_json(sent.value or b""), outbox.now) for sent in outbox.on(RESULTS)]
    for event, at in results:
        windows[event.evaluation_id], emission = step(windows.get(event.evaluation_id), event, at)
        if isinstance(emission, Card):
            records.append(emission.record)
    for kept in {record["policy_digest"] for record in records}:
        document = next(each.document for each in policies.values() if each.digest == kept)
        await ledger.register_policy(document, rfc3339(NOW))
    await ledger.append(records)
    await ledger.close()
    await vault.close()
