"""`glassbox replay gate BASE CANDIDATE`: an exit code for CI, and files that show why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.judge import JsonOption
from glassbox.cli.replay_inputs import (
    BaseArgument,
    CandidateArgument,
    CommonOption,
    CorpusOption,
    SuiteOption,
    ThresholdOption,
)

if TYPE_CHECKING:
    from glassbox.replay.compare import Comparison


def gate(
    base: BaseArgument,
    candidate: CandidateArgument,
    threshold: ThresholdOption = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="METRIC", help="A metric that does not decide. Repeatable.")
    ] = None,
    allow_unclear: Annotated[
        bool, typer.Option("--allow-unclear", help="Pass what too few cases cannot tell from chance; else exit 2.")
    ] = False,
    common: CommonOption = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML here.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a summary for a pull request here.")
    ] = None,
    suite: SuiteOption = None,
    corpus: CorpusOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide whether a candidate may follow its base: exit 0 no regression, 1 regression, 2 could not be measured.

    Example: glassbox replay gate runs/main runs/branch --junit gate.xml --markdown gate.md
    """
    from glassbox.cli.errors import UNABLE, CommandError, explained
    from glassbox.cli.replay_inputs import Suites, compared
    from glassbox.cli.replay_text import comparison_lines
    from glassbox.replay import gate as gates

    ignored = set(ignore or ())
    try:
        suites = Suites(suite, corpus)
        found = compared(suites.evaluated(base), suites.evaluated(candidate, 1), threshold, common)
        if unknown := sorted(ignored - _metrics(found)):
            raise CommandError(f"--ignore {unknown[0]}: no such metric; there are {', '.join(sorted(_metrics(found)))}")
    except Exception as error:
        reason = explained(error)
        if reason is None:
            raise
        if junit:
            junit.write_bytes(gates.junit_unable(reason))
        if markdown:
            markdown.write_text(gates.markdown_unable(reason), encoding="utf-8")
        _tell("", reason)
        raise typer.Exit(UNABLE) from None
    decided = gates.gate(found, ignored, allow_unclear=allow_unclear)
    if junit:
        junit.write_bytes(gates.junit(decided))
    if markdown:
        markdown.write_text(gates.markdown(decided), encoding="utf-8")
    _tell(found.model_dump_json() if as_json else "\n".join(comparison_lines(found)), decided.sentence)
    raise typer.Exit(gates.EXIT_CODES[decided.outcome])


def _tell(table: str, sentence: str) -> None:
    """To stdout and stderr. A reader that has gone (`| head -1`) does not change the decision: else its exit code, 1,
    would read as a regression."""
    from glassbox.cli.errors import say, unheard

    try:
        if table:
            print(table, flush=True)
    except BrokenPipeError:
        unheard(sys.stdout)
    try:
        say(sentence)
    except BrokenPipeError:
        unheard(sys.stderr)


def _metrics(found: Comparison) -> set[str]:
    return {change.metric for change in found.changes}
