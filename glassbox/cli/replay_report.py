"""`glassbox replay report RUN [CANDIDATE]`: one page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.replay_inputs import CommonOption, CorpusOption, SuiteOption, ThresholdOption

if TYPE_CHECKING:
    from glassbox.cli.replay_inputs import Suites
    from glassbox.replay.report import Side
    from glassbox.replay.suite import Suite


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run's folder, or the evaluation in it; the base of two.")
    ],
    candidate: Annotated[
        Path | None, typer.Argument(metavar="[CANDIDATE]", help="A run's folder, held against the first.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path("report.html"),
    threshold: ThresholdOption = None,
    common: CommonOption = False,
    suite: SuiteOption = None,
    corpus: CorpusOption = None,
) -> None:
    """Write a page that shows a run, or two side by side, with the answers that failed; it needs no network.

    Example: glassbox replay report runs/v2 runs/v3 -o report.html
    """
    from glassbox.cli.replay_inputs import Suites, compared
    from glassbox.replay import report as reports

    suites = Suites(suite, corpus)
    of, base = _side(suites, run, 0)
    if candidate is None:
        page = reports.report(of, base)
    else:
        of, other = _side(suites, candidate, 1)
        page = reports.report(of, base, other, compared(base.evaluation, other.evaluation, threshold, common))
    output.write_text(page, encoding="utf-8")
    print(output)


def _side(suites: Suites, path: Path, place: int) -> tuple[Suite, Side]:
    """A run by its folder, or by the evaluation beside it, scorecards and all: the page shows answers, so it needs the
    run."""
    from glassbox.cli.errors import CommandError
    from glassbox.replay.evaluate import EvaluationEngine, read_evaluation
    from glassbox.replay.report import Side
    from glassbox.replay.store import Run

    run = Run.open(path.parent if path.is_file() else path)
    suite = suites.of(run, place)
    if not path.is_file():
        return suite, Side(run, EvaluationEngine(suite).evaluate(run))
    evaluation = read_evaluation(path)
    if evaluation.run.digest != run.manifest.digest():
        raise CommandError(f"{path} is not an evaluation of the run beside it")
    return suite, Side(run, evaluation)
