"""Requests judged into a data folder by the roles' own code in this process, without a broker, and judged again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from glassbox.cli.dossier import archive
from glassbox.cli.recomputation import Part, Recomputation, recompute
from glassbox.cli.stores import documents, evidence_store
from glassbox.cli.wiring import make_judge, own_judges
from glassbox.contract.events import RESULT, rfc3339
from glassbox.contract.policy import Policy, load_policies
from glassbox.dossier.archive import Dossier
from glassbox.settings import Settings
from judges.lexical.faults import Faults
from judges.lexical.server import LexicalServer
from judges.llm import Endpoint, EndpointClient
from judges.port import NEEDS, Judge
from judges.run import answer
from ledger.evidence import EvidenceVault
from ledger.merkle_log import MerkleLog
from streams.admission import Admission
from streams.intake import Intake
from streams.join import Card, step
from streams.shares import Shares
from streams.topics import REQUESTS, RESULTS, judge_topic
from streams.worker import Worker
from tests.streams.doubles import Feed, MemoryOutbox, NoBacklog

SAMPLES = (files("glassbox.cli") / "samples" / "requests.jsonl").read_bytes().splitlines()
ONE = "transit-fare-01"
"""The first of them."""
NO_FAULTS = Faults()
NOW = 1_700_000_000_000


def settings_of(folder: Path) -> Settings:
    return Settings(data_dir=folder)


async def judge_into(
    folder: Path,
    requests: Iterable[bytes],
    client: EndpointClient | None,
    policies: Mapping[str, Policy],
    policy: str,
    replaced: Mapping[str, Judge],
    now: int = NOW,
) -> None:
    """Judge requests and put their records on the folder's ledger. `replaced`: judges by kind in place of the real
    ones. `now`: when the first was asked for, in ms."""
    settings = settings_of(folder)
    vault = EvidenceVault(evidence_store(settings))
    ledger = MerkleLog.committer(settings.ledger_path, settings.signing_key())
    judges = {kind: replaced.get(kind) or make_judge(kind, client) for kind in policies[policy].kinds()}
    needs = {**NEEDS, **{kind: own.needs for kind, own in own_judges([policies[policy]]).items()}}
    outbox, windows, records = MemoryOutbox(now=now), dict[str, Any](), list[dict[str, Any]]()
    key, rules = settings.id_key(), settings.documents()
    intake = Intake(outbox, vault, policies, policy, needs, key, Admission(NoBacklog()), Shares(1000, 1000, 1), rules)
    requested = Feed(REQUESTS)
    for raw in requests:
        await intake.handle(*requested.next(raw, outbox.now))
    for kind, judge in judges.items():
        worker = Worker(kind, lambda case, judge=judge: answer(judge, case), outbox, vault, documents(settings))
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
        await ledger.register_policy(document, rfc3339(now))
    await ledger.append(records)
    await ledger.close()
    await vault.close()


def judged(
    folder: Path,
    requests: Iterable[bytes] = SAMPLES[:1],
    *,
    policy: str = "offline",
    policies: str = "",
    faults: Faults = NO_FAULTS,
    connect: Callable[[Endpoint, bytes], EndpointClient] = EndpointClient,
    replaced: Callable[[EndpointClient], Mapping[str, Judge]] = lambda client: {},
    now: int = NOW,
) -> Path:
    """A data folder in which requests were judged."""

    async def judge() -> None:
        settings = settings_of(folder)
        async with LexicalServer(faults=faults) as server:
            client = connect(settings.endpoint(server.url), settings.id_key())
            await judge_into(folder, requests, client, load_policies(policies), policy, replaced(client), now)
            await client.close()

    asyncio.run(judge())
    return folder


async def dossiers(folder: Path, ids: Iterable[str]) -> list[Dossier]:
    async with archive(settings_of(folder)) as records:
        return [await records.dossier(evaluation_id) for evaluation_id in ids]


async def scorecards(folder: Path) -> list[str]:
    log = MerkleLog.reader(settings_of(folder).ledger_path)
    ids = await log.find("", 1000)
    await log.close()
    return [evaluation_id for evaluation_id in ids if not evaluation_id.startswith("policy:")]


def dossier(folder: Path, evaluation_id: str = ONE) -> Dossier:
    return asyncio.run(dossiers(folder, [evaluation_id]))[0]


def again(folder: Path, found: Dossier | None = None) -> Recomputation:
    settings = settings_of(folder)
    return asyncio.run(recompute(found or dossier(folder), settings.id_key(), documents(settings)))


def part(made: Recomputation, name: str) -> Part:
    return next(part for part in made.parts if part.part == name)
