"""Real evaluations, judged and put on a ledger in this process, and a real gateway that shows them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassbox.cli.stores import evidence_store
from glassbox.contract.events import PolicyRegistration
from glassbox.contract.events import Receipt as Published
from glassbox.contract.verdict import Method, NotApplicable, Scored
from glassbox.dossier.archive import Shelf
from glassbox.gateway.limits import Limits
from glassbox.gateway.server import Server
from judges.llm import EndpointClient
from judges.port import NEEDS, Case, Judge, Judgement
from ledger.merkle_log import MerkleLog
from ledger.port import Receipt
from streams.ports import Record
from streams.topics import RECEIPTS, SCORECARDS
from tests.catalogue.stories import message
from tests.cli.judged import SAMPLES, judged, settings_of
from tests.gateway.parts import Door, door

MINUTE, DAY = 60_000, 86_400_000
FAILING = "transit-fare-02"
"""An answer with a wrong price, which fails by veto."""
DAYS = {2: ("transit-night-01",), 1: ("transit-fare-01",), 0: (FAILING,)}
"""Days ago -> which of the shipped samples were asked then."""
HOSTILE = "hostile"
HUGE = "huge"
OVERRIDE = "\u202e"
NAUGHTY = {
    "evaluation_id": HOSTILE,
    "query": "<img src=x onerror=alert(1)> What does a \u200bsingle ticket cost?",
    "answer": "<script>document.title='taken'</script> A single ticket costs €2.80. "
    f"[click](javascript:alert(1)) {OVERRIDE}.08.2€ yap{OVERRIDE} \u2066 \ufeff<b onmouseover=alert(2)>bold</b> "
    "العربية ثم English، مرحبا. ＆lt;/p>",
    "retrieved_passages": [
        {"id": "javascript:alert(3)", "text": "A single ticket costs €2.80.</li></ol><script>alert(4)</script>"},
        {"id": "<svg onload=alert(5)>", "text": "\u202eNothing\u202c of this is \u200d\u200d\u200dseen."},
    ],
    "model": {"provider": "<i>evil</i>", "name": "javascript:alert(6)"},
}


def _sample(name: str) -> bytes:
    return next(raw for raw in SAMPLES if raw.startswith(f'{{"evaluation_id": "{name}"'.encode()))


class Scripted:
    """A judge that has something to say about the whole of a huge answer, at once."""

    def __init__(self, kind: str) -> None:
        self.kind, self.needs = kind, NEEDS[kind]

    async def judge(self, case: Case) -> Judgement:
        method = Method(name="scripted", family="rules", library="tests", version="1")
        verdicts = tuple(
            Scored.of(part, 1.0, method=method)
            if part == "faithfulness"
            else NotApplicable(part=part, cause="no_entities")
            for part in case.settings
        )
        evidence: dict[str, Any] = {"calls": []}
        if self.kind == "grounding":
            text = case.input.answer or ""
            claims = [
                {
                    "text": text[at : at + 40],
                    "verdict": 1,
                    "undecided": False,
                    "reason": "scripted",
                    "answer": {"start": at, "end": at + 40, "alignment": "exact"},
                    "support": {"passage": 0, "start": 0, "end": 10, "id": None},
                }
                for at in range(0, 20_000, 100)
            ]
            evidence = {"faithfulness": {"context": "passages", "claims": claims, "supported": len(claims)}}
        return Judgement(verdicts, evidence)

    async def close(self) -> None:
        pass


def scripted(_: EndpointClient) -> Mapping[str, Judge]:
    return {kind: Scripted(kind) for kind in NEEDS}


def filled(folder: Path, now: int) -> Path:
    """A data folder with real evaluations, the hostile one among them, asked for up to `now` (ms)."""
    for days, names in DAYS.items():
        judged(folder, map(_sample, names), now=now - days * DAY - 30 * MINUTE)
    judged(folder, [json.dumps(NAUGHTY).encode()], now=now - 20 * MINUTE)
    words = "An answer of a megabyte, \u200b with many words in it. "
    huge = {
        "evaluation_id": HUGE,
        "query": "How long may an answer be?",
        "answer": (words * 20_000)[:980_000],
        "retrieved_passages": ["A passage that carries it."],
    }
    judged(folder, [json.dumps(huge, ensure_ascii=False).encode()], replaced=scripted, now=now - 40 * MINUTE)
    return folder


@dataclass(frozen=True)
class Entry:
    """What stands on a ledger; `policy`: the content of a policy's record."""

    receipt: Receipt
    policy: Mapping[str, Any] | None
    number: int

    def message(self, tenant: str | None) -> Record:
        """What is published of it: a registration, or a receipt."""
        record = dict(self.receipt.record)
        published: PolicyRegistration | Published
        if self.policy is not None:
            topic, published = SCORECARDS, PolicyRegistration(policy=dict(self.policy), record=record)
        else:
            topic, published = (
                RECEIPTS,
                Published(
                    evaluation_id=record["evaluation_id"],
                    result="created",
                    record=record,
                    record_digest=self.receipt.record_digest,
                    ledger=self.receipt.ledger,
                    proof=dict(self.receipt.proof),
                    tenant=tenant,
                ),
            )
        return message(topic, published.model_dump(mode="json"), at=self.number, offset=self.number)


def entries(folder: Path) -> dict[str, Entry]:
    """All that stands on a folder's ledger, by name."""

    async def read() -> dict[str, Entry]:
        log, made = MerkleLog.reader(settings_of(folder).ledger_path), dict[str, Entry]()
        for number, name in enumerate(await log.find("", 1000)):
            receipt = await log.prove(name)
            assert receipt is not None
            made[name] = Entry(receipt, await log.policy(name.removeprefix("policy:")), number)
        await log.close()
        return made

    return asyncio.run(read())


class Serving:
    """A gateway in a thread with a loop of its own."""

    def __init__(self, app: Any, limits: Limits, port: int = 0) -> None:
        self._ready, self.port = threading.Event(), port
        self._server = Server(app, "127.0.0.1", port, limits, self._listening)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server._serve()))
        self._thread.start()
        assert self._ready.wait(30)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def _listening(self, port: int) -> None:
        self.port = port
        self._ready.set()

    def stop(self) -> None:
        """As a gateway that dies: what it was answering is cut off."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(30)


@dataclass
class House:
    """A gateway that is served on a data folder with real evaluations. `ledger`: what stands there by name. `key`: the
    log's public key."""

    ledger: Mapping[str, Entry]
    tenant: str | None
    key: str
    door: Door
    serving: Serving
    limits: Limits

    @property
    def url(self) -> str:
        return self.serving.url

    def told(self, *names: str) -> None:
        """What was published of these comes to the catalogue."""
        self.door.told([self.ledger[name].message(self.tenant) for name in names])

    def again(self) -> None:
        """Serve on the same address as before."""
        self.serving = Serving(self.door.app, self.limits, self.serving.port)


@contextmanager
def housed(
    judged_folder: Path,
    ledger: Mapping[str, Entry],
    catalogue: Path,
    tenant: str | None = None,
    *,
    stream_s: float = 60,
    **options: Any,
) -> Iterator[House]:
    """A house whose catalogue, in a folder of its own, knows all policies and no evaluation. `options`: of the door."""
    settings, limits = settings_of(judged_folder), Limits(stream_s=stream_s)
    with door(catalogue, limits=limits, shelf=Shelf(evidence_store(settings)), **options) as made:
        serving = Serving(made.app, limits)
        house = House(ledger, tenant, str(settings.signing_key().verifier), made, serving, limits)
        house.told(*(name for name in ledger if name.startswith("policy:")))
        try:
            yield house
        finally:
            house.serving.stop()
