"""`glassbox submit FILE`: recorded answers to the pipeline, and what became of each."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox.cli.judge import JsonOption, MapOption

if TYPE_CHECKING:
    from glassbox.cli.answers import Submission
    from glassbox.cli.inputs import Line
    from glassbox.cli.tracking import Answer
    from glassbox.settings import Settings


def submit(
    file: Annotated[Path, typer.Argument(help="JSON lines, one request each, or CSV; - is standard input.")],
    mapping: MapOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until every request has its receipt or dead letter.")] = (
        False
    ),
    as_json: JsonOption = False,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Send so many a second; all at once by default.")] = (
        None
    ),
    claim_check: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="BYTES",
            help="Put passages and documents over so many bytes into the place of GLASSBOX_DOCUMENTS_URL and send a "
            "reference. By default only the largest of a request over 1 MiB.",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="With --wait: give up when no answer came for so long, s.")] = (
        600
    ),
) -> None:
    """Publish recorded answers to the pipeline, byte for byte but for texts that are sent as a reference.

    With --wait: exit 1 if any request became a dead letter, 2 if any has no answer.

    Example: glassbox submit answers.jsonl --wait
    """
    from glassbox.cli.answers import Submission
    from glassbox.cli.errors import CommandError
    from glassbox.cli.inputs import read_lines
    from glassbox.settings import Settings

    settings = Settings.load()
    broker = settings.broker()
    lines = asyncio.run(_checked_in(read_lines(file, mapping or []), settings, claim_check))
    if not lines:
        raise CommandError(f"{file} has no requests")
    submission = Submission(broker, settings.id_key, follow=wait)
    try:
        follow(submission, lines, wait, rate, timeout)
    finally:
        submission.close()
    if wait:
        report_answers(submission, as_json)
    elif as_json:
        print(json.dumps({"requests": len(lines)}))
    else:
        print(f"{len(lines)} requests are in the log; `glassbox watch` shows their scorecards")


async def _checked_in(lines: Iterable[Line], settings: Settings, over: int | None) -> list[Line]:
    from glassbox.cli.claim_check import checked_in
    from glassbox.cli.stores import documents

    return [line async for line in checked_in(lines, documents(settings), over)]


def follow(submission: Submission, lines: list[Line], wait: bool, rate: float | None, timeout: float) -> None:
    from glassbox.cli.progress import Progress

    answered = submission.tracker.answers
    with Progress("answered" if wait else "sent", len(lines)) as progress:
        for _ in submission.send(lines, rate):
            progress.update(len(answered) if wait else len(submission.tracker.ids))
        last = time.monotonic()
        while wait and submission.tracker.pending and time.monotonic() - last < timeout:
            if submission.poll(0.2):
                last = time.monotonic()
            progress.update(len(answered))


def report_answers(submission: Submission, as_json: bool) -> None:
    from glassbox.cli.errors import FINDING, UNABLE, say

    tracker = submission.tracker
    answers = [tracker.answers[line] for line in sorted(tracker.answers)]
    summary = tracker.summary()
    if as_json:
        for answer in answers:
            print(json.dumps(_to_json(answer, tracker.ids[answer.line]), ensure_ascii=False))
        print(json.dumps({"summary": summary}))
    else:
        for answer in answers:
            if answer.dead is not None:
                print(f"line {answer.line} is a dead letter: {describe(answer.dead)}")
        print("\n".join(lines_of(summary)))
    unanswered = tracker.unanswered()
    if unanswered:
        some = ", ".join(map(str, unanswered[:10])) + (" …" if len(unanswered) > 10 else "")
        say(f"no answer to line {some}; see that every role is ready")
        sys.exit(UNABLE)
    if any(answer.dead is not None for answer in answers):
        sys.exit(FINDING)


def describe(headers: Any) -> str:
    """A dead letter's headers as a person reads them."""
    from glassbox.dossier.reasons import printable

    where = f"{headers['field']}: " if headers.get("field") else ""
    return printable(f"{headers.get('reason', '?')}, {where}{headers.get('detail', '')}".rstrip(", "))


def lines_of(summary: Any) -> list[str]:
    """A tracker's summary for people."""
    outcomes = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(summary["outcomes"].items()))
    lines = [f"{summary['requests']} requests, {summary['evaluations']} evaluations: {outcomes or 'no answer'}"]
    if summary["p50_s"] is not None:
        rate = f"{summary['per_second']:.1f} evaluations a second; " if summary["per_second"] else ""
        lines.append(f"{rate}from submit to answer p50 {summary['p50_s']:.2f} s, p99 {summary['p99_s']:.2f} s")
    return lines


def _to_json(answer: Answer, evaluation_id: str | None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "line": answer.line,
        "evaluation_id": evaluation_id,
        "outcome": answer.outcome,
        "seconds": round(answer.seconds, 3),
    }
    if answer.record is not None:
        made["trust"] = answer.record["trust"]
    else:
        made["dead_letter"] = dict(answer.dead or {})
    return made
