"""`glassbox replay evaluate RUN…`: figures of stored runs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.judge import JsonOption
from glassbox.cli.replay_inputs import CorpusOption, PolicyOption, SuiteOption

if TYPE_CHECKING:
    from glassbox.cli.replay_inputs import Suites
    from glassbox.replay.evaluate import Evaluation


def evaluate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    suite: SuiteOption = None,
    corpus: CorpusOption = None,
    judged: Annotated[
        bool, typer.Option("--judged", help="Join the scorecards of `replay submit` from this machine's ledger.")
    ] = False,
    policy: PolicyOption = None,
    write: Annotated[bool, typer.Option(help="Whether evaluation.json is written into each run's folder.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Measure stored runs: every metric with its n, and what became of each case. The system is not called.

    Example: glassbox replay evaluate runs/v1 runs/v2
    """
    from glassbox.cli.replay_inputs import Suites
    from glassbox.cli.replay_text import evaluation_lines
    from glassbox.replay.evaluate import EVALUATION

    suites = Suites(suite, corpus)
    found = []
    for place, folder in enumerate(runs):
        made = _judged(suites, folder, place, policy) if judged else suites.evaluated(folder, place)
        if write and folder.is_dir():
            _keep(folder / EVALUATION, made.to_bytes())
        found.append(made)
        if as_json:
            sys.stdout.write(made.to_bytes().decode())
    if not as_json:
        print("\n".join(evaluation_lines(found)))


def _judged(suites: Suites, folder: Path, place: int, policy: str | None) -> Evaluation:
    from glassbox.cli.errors import CommandError
    from glassbox.cli.replay_submit import scorecards
    from glassbox.replay.evaluate import EvaluationEngine
    from glassbox.replay.store import Run
    from glassbox.replay.submission import with_scorecards
    from glassbox.settings import Settings

    run = Run.open(folder)
    suite = suites.of(run, place)
    records = asyncio.run(scorecards(Settings.load(), run, suite, policy))
    if not records:
        raise CommandError(
            f"{folder}: no scorecard of this run is on the ledger; `glassbox replay submit` asks for them"
        )
    return with_scorecards(EvaluationEngine(suite).evaluate(run), records)


def _keep(path: Path, content: bytes) -> None:
    """As a whole or not at all."""
    half = path.with_name(f".{path.name}.part")
    half.write_bytes(content)
    half.replace(path)
