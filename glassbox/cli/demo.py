"""`glassbox demo`: the sample answers through the whole pipeline, every proof verified, nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassbox.cli.answers import Submission
    from glassbox.cli.children import Stop
    from glassbox.cli.inputs import Line
    from glassbox.cli.supervisor import Supervisor
    from glassbox.dossier.archive import Dossier
    from glassbox.settings import Settings

_PATIENCE_S = 120.0
"""Without any answer for so long something is broken."""


class DemoLedger(StrEnum):
    """Which ledgers keep the demo's records."""

    MERKLE = "merkle"
    FABRIC = "fabric"
    BOTH = "merkle,fabric"


def demo(
    keep: Annotated[Path | None, typer.Option(help="Keep ledger, evidence, keys and logs in this folder.")] = None,
    ledger: Annotated[
        DemoLedger,
        typer.Option(help="Where records go. Fabric: the network that GLASSBOX_FABRIC_* name (docs/fabric.md)."),
    ] = DemoLedger.MERKLE,
) -> None:
    """Judge the sample answers with every process that production runs, and verify every proof.

    Needs no network, no key and no model: the offline model compares words and stands in for a real one.

    Example: glassbox demo --keep demo-data
    """
    from glassbox.cli.children import Stop
    from glassbox.cli.errors import say
    from glassbox.cli.supervisor import supervised

    began = time.monotonic()
    stop = Stop()
    with _folder(keep) as folder:
        settings = _settings(folder, ledger)
        with supervised(settings, stop, say, grace_s=2.0) as supervisor:
            code = _run(supervisor, stop, began, keep)
    sys.exit(stop.exit_code or code)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep.absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="glassbox-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _settings(folder: Path, ledger: DemoLedger) -> Settings:
    """The same everywhere: neither the environment's settings nor a glassbox.toml nearby have a part in it, but for
    what says where Fabric is."""
    from glassbox.settings import PREFIX, Settings, variable

    kept = f"{PREFIX}FABRIC_" if ledger is not DemoLedger.MERKLE else None
    for key in [key for key in os.environ if key.startswith(PREFIX) and not (kept and key.startswith(kept))]:
        del os.environ[key]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = folder / "glassbox.toml"
    config.touch()
    os.environ |= {variable("data_dir"): str(folder), variable("config"): str(config), variable("policy"): "offline"}
    os.environ[variable("ledger")] = ledger.value
    return Settings.load()


def _run(supervisor: Supervisor, stop: Stop, began: float, keep: Path | None) -> int:
    from glassbox.cli.answers import Submission
    from glassbox.cli.inputs import read_lines

    samples = Path(str(files("glassbox.cli") / "samples" / "requests.jsonl"))
    lines = list(read_lines(samples))
    if "fabric" in supervisor.settings.ledgers:
        lines = _renamed(lines)
    print(f"GlassBox demo: broker, offline model and {len(supervisor.metrics)} roles start, each a process of its own")
    broker = supervisor.start_log()
    submission = Submission(broker, supervisor.settings.id_key, follow=True)
    try:
        supervisor.start_roles()
        for _ in submission.send(lines):
            pass
        print(f"{len(lines)} recorded answers are in the log after {time.monotonic() - began:.1f} s", flush=True)
        if not _follow(supervisor, submission, stop, began):
            return 2
    finally:
        submission.close()
    if stop:
        return 2
    return _show(supervisor.settings, submission, lines, keep)


def _renamed(lines: list[Line]) -> list[Line]:
    """The samples under new ids: a network remembers those of the last demo, and the first record of an id stands."""
    mark = secrets.token_hex(3)
    renamed = []
    for number, raw in lines:
        request = json.loads(raw)
        if "evaluation_id" in request:
            request["evaluation_id"] += f"-{mark}"
        renamed.append((number, json.dumps(request, ensure_ascii=False).encode()))
    return renamed


def _follow(supervisor: Supervisor, submission: Submission, stop: Stop, began: float) -> bool:
    """Whether every request was answered."""
    from glassbox.cli.errors import say
    from glassbox.cli.progress import Progress

    tracker, last, looked, waiting = submission.tracker, time.monotonic(), 0.0, [""]
    carded = False
    with Progress("judged", len(tracker.ids)) as progress:
        while tracker.pending and not stop:
            supervisor.watch()
            if waiting and time.monotonic() - looked > 1:
                waiting, looked = supervisor.waiting_for(), time.monotonic()
            if found := submission.poll(0.1):
                last = time.monotonic()
                if not carded and any(answer.record is not None for answer in found):
                    carded = True
                    print(f"first scorecard after {last - began:.1f} s", flush=True)
            elif time.monotonic() - last > _PATIENCE_S:
                say(f"no answer for {_PATIENCE_S:.0f} s; not ready: {', '.join(waiting) or 'no role'}")
                return False
            progress.update(len(tracker.answers), note=f"starting: {', '.join(waiting)}" if waiting else "")
    if not stop:
        print(f"all {len(tracker.ids)} are answered after {time.monotonic() - began:.1f} s", flush=True)
    return not tracker.pending


def _show(settings: Settings, submission: Submission, lines: list[Line], keep: Path | None) -> int:
    from glassbox.cli.cards import print_table, row
    from glassbox.cli.submit import describe

    answers = submission.tracker.answers
    ids = dict.fromkeys(
        str(answer.record["evaluation_id"])
        for answer in (answers[number] for number, _ in lines)
        if answer.record is not None
    )
    dossiers = asyncio.run(_dossiers(settings, list(ids)))
    planted = _planted(lines, submission.tracker.ids)
    rows = [row(each.record, each.policy, each.evidence, each.verdicts.values()) for each in dossiers]
    print_table(rows, planted, "planted defect")
    for number, raw in lines:
        dead = answers[number].dead
        if dead is not None:
            defect = json.loads(raw).get("metadata", {}).get("defect", "")
            print(f"dead letter: line {number} ({defect}): {describe(dead)}")
    failed = _verify(settings, dossiers)
    print(_next(ids, keep, settings.ledger))
    return 1 if failed else 0


async def _dossiers(settings: Settings, ids: list[str]) -> list[Dossier]:
    from glassbox.cli.dossier import archive

    async with archive(settings) as records:
        return [await records.dossier(evaluation_id) for evaluation_id in ids]


def _planted(lines: list[Line], ids: Mapping[int, str | None]) -> dict[str, str]:
    defects = {}
    for number, raw in lines:
        evaluation_id = ids[number]
        if evaluation_id is not None:
            defects[evaluation_id] = json.loads(raw).get("metadata", {}).get("defect", "").replace("_", " ")
    return defects


def _verify(settings: Settings, dossiers: list[Dossier]) -> int:
    """Check every bundle with the offline verifier; returns how many do not hold."""
    from glassbox.cli.ledgers import own_roots
    from glassbox.cli.proof import bundle_of
    from ledger.verify import exit_code, summary, trusted, verify_bundle

    merkle = settings.ledgers[0] == "merkle"
    key = settings.signing_key().verifier if merkle else None
    trust = (
        None
        if merkle
        else trusted(
            own_roots(settings),
            channel=settings.fabric_channel,
            chaincode=settings.fabric_chaincode,
            unsigned_validity=settings.fabric_hfc_python is not None,  # through hfc nobody is asked for a reading
        )
    )
    failed = 0
    for dossier in dossiers:
        steps = verify_bundle(bundle_of(dossier, with_evidence=True), [str(key)] if key else [], trust)
        if exit_code(steps):
            failed += 1
            print(f"{dossier.record['evaluation_id']}: the proof {summary(steps)}")
    held = f"{len(dossiers) - failed} of {len(dossiers)}"
    if key is not None:
        sizes = {dossier.receipt.proof["tree_size"] for dossier in dossiers}
        of = f"the signed checkpoint of {max(sizes)} records" if sizes else "no checkpoint"
        print(f"{held} inclusion proofs hold against {of} (key {key.label})")
    else:
        transactions = {dossier.receipt.proof["tx_id"] for dossier in dossiers}
        print(f"{held} proofs hold: endorsed by {settings.fabric_msp_id} in {len(transactions)} Fabric transactions")
    return failed


def _next(ids: Mapping[str, None], keep: Path | None, ledger: str) -> str:
    some = next(iter(ids), "ID")
    if keep is not None:
        where = f"GLASSBOX_DATA_DIR={keep}" + ("" if ledger == "merkle" else f" GLASSBOX_LEDGER={ledger}")
        return f"Look closer:  {where} glassbox show {some}\nA proof:      {where} glassbox proof {some} -o proof.json"
    return (
        f"Look closer:  glassbox demo --keep demo-data, then GLASSBOX_DATA_DIR=demo-data glassbox show {some}\n"
        "Your answers: glassbox judge FILE, or glassbox up and glassbox submit FILE --wait\n"
        "A real model: set GLASSBOX_LLM_BASE_URL, GLASSBOX_LLM_MODEL and GLASSBOX_EMBEDDING_MODEL (README)"
    )
