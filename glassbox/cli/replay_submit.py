"""`glassbox replay submit RUN`: a stored run to the judges, and its digest to the ledger."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox.cli.judge import JsonOption
from glassbox.cli.replay_inputs import CorpusOption, PolicyOption, SuiteOption

if TYPE_CHECKING:
    from glassbox.replay.store import Run
    from glassbox.replay.suite import Suite
    from glassbox.settings import Settings
    from streams.clients import Broker


def submit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    policy: PolicyOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until every answer has its scorecard.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="With --wait: give up when nothing came for so long, s.")] = 600,
    suite: SuiteOption = None,
    corpus: CorpusOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish each answer of a stored run to the pipeline, and the run's digest to the ledger.

    Ids follow from the run, so submitting it again changes nothing. `replay evaluate --judged` joins what comes back.
    With --wait: exit 1 if any request became a dead letter, 2 if any has no answer.

    Example: glassbox replay submit runs/v2 --wait
    """
    from glassbox.cli.answers import Submission
    from glassbox.cli.replay_inputs import Suites
    from glassbox.cli.submit import follow, report_answers
    from glassbox.replay.store import Run
    from glassbox.replay.submission import requests
    from glassbox.settings import Settings

    settings = Settings.load()
    found = Run.open(run)
    made = list(requests(found, Suites(suite, corpus).of(found, 0), policy))
    lines = [(n, each.body()) for n, each in enumerate(made, 1) if each.request is not None]
    broker = settings.broker()
    submission = Submission(broker, settings.id_key, follow=wait)
    try:
        _register(broker, found)
        follow(submission, lines, wait, None, timeout)
    finally:
        submission.close()
    digest = found.manifest.digest()
    if not as_json:
        print(f"run {found.manifest.run_id} {digest} is in the log, for the ledger")
        if left := len(made) - len(lines):
            print(f"{left} of {len(made)} traces have no answer to judge")
    if wait:
        report_answers(submission, as_json)
    elif as_json:
        print(json.dumps({"run": digest, "requests": len(lines), "without_answer": len(made) - len(lines)}))
    else:
        print(f"{len(lines)} requests are in the log; `glassbox watch` shows their scorecards")


def _register(broker: Broker, run: Run) -> None:
    """The record of a run, dated by the run's own end: the same bytes each time."""
    from glassbox.cli.publish import Publisher
    from glassbox.contract.events import Reference, reference_record
    from streams.topics import SCORECARDS

    assert run.manifest.finished_at is not None
    finished = round(datetime.fromisoformat(run.manifest.finished_at).timestamp() * 1000)
    record = reference_record("run", run.manifest.digest(), finished)
    entry = Reference(tenant=None, record=record)
    with Publisher(broker) as publisher:
        publisher.send(SCORECARDS, record["evaluation_id"].encode(), entry.model_dump_json().encode())


async def scorecards(settings: Settings, run: Run, suite: Suite, policy: str | None) -> dict[tuple[str, int], Any]:
    """The records of a run's traces on this machine's ledger, by case and repeat; none of other content."""
    from glassbox.cli.dossier import archive
    from glassbox.replay.submission import requests

    found = {}
    async with archive(settings) as standing:
        for each in requests(run, suite, policy):
            if each.request is None or each.request.evaluation_id is None:
                continue
            dossier = await standing.exactly(each.request.evaluation_id)
            if dossier is not None and (dossier.request is None or dossier.request.request == each.request.canonical()):
                found[each.case, each.repeat] = dossier.record
    return found
