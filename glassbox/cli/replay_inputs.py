"""What the `replay` commands read: suites, runs and evaluations by path, and tolerances as they are written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.errors import CommandError

if TYPE_CHECKING:
    from glassbox.replay.compare import Comparison, Tolerance
    from glassbox.replay.evaluate import Evaluation
    from glassbox.replay.store import Run
    from glassbox.replay.suite import Suite

BaseArgument = Annotated[Path, typer.Argument(metavar="BASE", help="A run's folder, or an evaluation's file.")]
CandidateArgument = Annotated[Path, typer.Argument(metavar="CANDIDATE", help="What is held against the base.")]
SuiteOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|PATH",
        help="The suite that was run, where it is not a shipped one; twice where base and candidate differ.",
    ),
]
CorpusOption = Annotated[
    list[Path] | None, typer.Option(help="The suite's documents, where the suite is a file; as often as --suite.")
]
ThresholdOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[METRIC=]X",
        help="A change counts beyond X: 5% of the base, or 0.05 in the metric's unit; default the larger of 2% and "
        "0.005 (tokens 1), latency 20% and 50 ms.",
    ),
]
CommonOption = Annotated[bool, typer.Option("--common", help="Compare the cases that stand in both suites.")]


PolicyOption = Annotated[
    str | None,
    typer.Option(help="The policy that answers are judged by, which their ids name; default the pipeline's."),
]


class Suites:
    """The suites of the runs that a command is given, each read once."""

    def __init__(self, named: Sequence[str] | None, corpora: Sequence[Path] | None) -> None:
        self._named, self._corpora = list(named or ()), list(corpora or ())
        self._read: dict[tuple[str, Path | None, str], Suite] = {}

    def of(self, run: Run, place: int) -> Suite:
        """The suite of a run, which stands at `place` (0 or 1) of those that were named; by default the shipped one of
        its name. Raises `CommandError`, `SuiteError`."""
        from glassbox.replay.suite import load_suite, shipped

        name = run.manifest.suite.name
        if self._named:
            name = self._named[min(place, len(self._named) - 1)]
        elif name not in shipped():
            raise CommandError(f"{run.folder}: {name!r} is no shipped suite: name its file or folder with --suite")
        corpus = self._corpora[min(place, len(self._corpora) - 1)] if self._corpora else None
        columns = run.manifest.suite.columns
        key = (name, corpus, str(columns))
        if key not in self._read:
            self._read[key] = load_suite(name, corpus, columns)
        return self._read[key]

    def evaluated(self, path: Path, place: int = 0) -> Evaluation:
        """An evaluation from its file, or made here of the run in a folder."""
        from glassbox.replay.evaluate import EvaluationEngine, read_evaluation
        from glassbox.replay.store import Run

        if path.is_dir():
            run = Run.open(path)
            return EvaluationEngine(self.of(run, place)).evaluate(run)
        if not path.exists():
            raise CommandError(f"{path}: there is no such run or evaluation")
        return read_evaluation(path)


def compared(base: Evaluation, candidate: Evaluation, threshold: Sequence[str] | None, common: bool) -> Comparison:
    """The two, by tolerances as they were written."""
    from glassbox.replay.compare import compare

    names = [name for name in candidate.metrics if name in base.metrics]
    return compare(base, candidate, tolerances(threshold or (), names), common=common)


def tolerances(written: Sequence[str], names: Collection[str]) -> dict[str, Tolerance]:
    """`METRIC=X`, or `X` for every metric that has none of its own. X is a share of the base in per cent, or a number
    in the metric's unit; it replaces both tolerances, so that what was asked for is what holds."""
    from glassbox.replay.compare import Tolerance

    found: dict[str, Tolerance] = {}
    for item in sorted(written, key=lambda item: "=" in item):
        metric, _, text = item.rpartition("=")
        if metric and metric not in names:
            raise CommandError(f"--threshold {item}: no such metric; there are {', '.join(names)}")
        for name in [metric] if metric else names:
            number = _number(text.removesuffix("%"), item)
            found[name] = Tolerance(number / 100, 0.0) if text.endswith("%") else Tolerance(0.0, number)
    return found


def _number(text: str, item: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise CommandError(f"--threshold {item}: must be a number from 0, or one in per cent, such as 5%")
    return number
