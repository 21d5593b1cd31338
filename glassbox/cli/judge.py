"""`glassbox judge FILE`: score recorded answers in this process, without broker and ledger."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassbox.cli.cards import Row
    from glassbox.cli.local import Result
    from glassbox.settings import Settings
    from judges.llm import ClientStats

MapOption = Annotated[
    list[str] | None, typer.Option("--map", metavar="COLUMN=FIELD", help="CSV: which column is which request field.")
]
CacheOption = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Whether answers of models are kept and used again.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def judge(
    file: Annotated[Path, typer.Argument(help="JSON lines, one request each, or CSV; - is standard input.")],
    mapping: MapOption = None,
    policy: Annotated[str | None, typer.Option(help="For requests that name none; default GLASSBOX_POLICY.")] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit 1 if any answer's trust is below this, or it could not be judged."),
    ] = None,
    as_json: JsonOption = False,
    with_evidence: Annotated[bool, typer.Option(help="With --json: why each part has its score.")] = False,
    cache: CacheOption = True,
) -> None:
    """Judge recorded answers in this process: no broker, no ledger, no proof, the same judges and arithmetic.

    What a model answered is kept in the data folder, so that a second run asks it nothing. Exit 2 where every line was
    refused.

    Example: glassbox judge answers.csv --map question=query --map context=retrieved_passages --fail-under 0.8
    """
    from glassbox.cli.agreement_text import carried
    from glassbox.cli.cards import print_table
    from glassbox.cli.errors import FINDING, CommandError
    from glassbox.dossier.reasons import printable, suspected
    from glassbox.settings import Settings

    results, asked = asyncio.run(_judge(Settings.load(), file, mapping or [], policy, cache))
    if as_json:
        for result in results:
            print(json.dumps(_to_json(result, with_evidence), ensure_ascii=False))
    else:
        print_table(row for result in results if (row := _row(result)))
        for result in results:
            if result.refused:
                print(f"line {result.line} was refused: {printable(': '.join(result.refused))}")
            for suspicion in suspected(result.evidence):
                print(f"line {result.line} looks like an attack on the judges: {suspicion}")
        for line in dict.fromkeys(line for result in results for line in carried(result.evidence)):
            print(f"agreement with people, {line}")
        print(_summary(results))
        if asked.cache_hits:
            print(f"{asked.cache_hits} of {asked.answers} model answers were kept from before")
    if fail_under is not None and any(_trust(result) < Decimal(str(fail_under)) for result in results):
        sys.exit(FINDING)
    if all(result.refused for result in results):
        raise CommandError(f"no line of {file} could be judged: each was refused")


async def _judge(
    settings: Settings, file: Path, mapping: list[str], policy: str | None, cache: bool
) -> tuple[list[Result], ClientStats]:
    from glassbox.cli.errors import CommandError
    from glassbox.cli.inputs import read_lines
    from glassbox.cli.local import bench, judge_lines
    from glassbox.cli.progress import Progress

    lines = list(read_lines(file, mapping))
    if not lines:
        raise CommandError(f"{file} has no requests")
    results = []
    async with bench(settings, policy, cache=cache) as judges:
        with Progress("judged", len(lines)) as progress:
            async for result in judge_lines(judges, lines, settings.worker_pool):
                results.append(result)
                progress.update(len(results))
        return results, judges.asked


def _row(result: Result) -> Row | None:
    from glassbox.cli.cards import row

    if result.card is None or result.policy is None:
        return None
    return row(result.card, result.policy.document, result.evidence, result.verdicts)


def _to_json(result: Result, with_evidence: bool) -> dict[str, Any]:
    from glassbox.cli.agreement_text import cards

    if result.card is None:
        field, reason = result.refused or ("", "")
        return {"line": result.line, "refused": {"field": field, "reason": reason}}
    evidence = {"evidence": dict(result.evidence)} if with_evidence else {}
    agreement = {"agreement": said} if (said := cards(result.evidence)) else {}
    return {"line": result.line, **result.card, "verdicts": list(result.verdicts), **agreement, **evidence}


def _trust(result: Result) -> Decimal:
    trust = result.card["trust"] if result.card else None
    return Decimal(-1) if trust is None else Decimal(trust)


def _summary(results: list[Result]) -> str:
    counts = Counter(result.card["outcome"] if result.card else "refused" for result in results)
    return f"{len(results)} answer{'s' if len(results) > 1 else ''}: " + ", ".join(
        f"{count} {outcome}" for outcome, count in counts.most_common()
    )
