"""`glassbox dead-letters`: what the pipeline refused and why; sending it again, or letting it go."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.clients import Broker
    from streams.redrive import Action, Case, DeadLetter

app = typer.Typer(no_args_is_help=True, help="Messages that could not be processed: look, send again, let go.")

Reasons = Annotated[list[str] | None, typer.Option("--reason", help="Only with this reason; may be given again.")]
Source = Annotated[str | None, typer.Option(metavar="TOPIC[/PARTITION[/OFFSET]]", help="Only from there.")]
Evaluation = Annotated[str | None, typer.Option("--id", metavar="ID", help="Only of this evaluation.")]
Tenant = Annotated[str | None, typer.Option(help="Only of this tenant.")]
Since = Annotated[str | None, typer.Option(help="Only seen since: 2026-01-31T09:30Z, or an age (90s, 15m, 6h, 2d).")]
Until = Annotated[str | None, typer.Option(help="Only seen before: a time or an age.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="[PARTITION/OFFSET]...", help="As `list` prints them.")]
Every = Annotated[bool, typer.Option("--all", help="Every open letter.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Rate = Annotated[float, typer.Option(min=0.001, help="At most so many a second.")]
Comment = Annotated[str, typer.Option(help="Why: kept with what was done.")]


@app.command(name="list")
def list_command(
    reasons: Reasons = None,
    source: Source = None,
    evaluation_id: Evaluation = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    every: Annotated[bool, typer.Option("--all", help="Also those that were redriven or discarded.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List open dead letters: where each stands, why it is one, and where the original message stands.

    Example: glassbox dead-letters list --reason contract --since 6h
    """
    from glassbox.cli.letters import Filter, read_cases
    from glassbox.settings import Settings

    wanted = Filter(tuple(reasons or ()), source, evaluation_id, tenant, since, until)
    matches = wanted.matcher(datetime.now(UTC))
    found = [
        case for case in read_cases(Settings.load().broker()) if matches(case.letter) and (every or case.note is None)
    ]
    for case in found[-limit:]:
        print(json.dumps(_document(case), ensure_ascii=False) if as_json else _line(case))
    if as_json:
        return
    if len(found) > limit:
        print(f"{len(found) - limit} older ones are not shown: see --limit")
    if not found:
        print("no dead letters" if every else "no open dead letters")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="PARTITION/OFFSET", help="As `list` prints it.")],
    as_json: JsonOption = False,
) -> None:
    """Show one dead letter: its headers, and on stdout after them the original message, byte for byte.

    Example: glassbox dead-letters show 2/17
    """
    from glassbox.cli.letters import named, read_cases
    from glassbox.dossier.reasons import printable
    from glassbox.settings import Settings

    (case,) = named(read_cases(Settings.load().broker()), [name])
    letter = case.letter
    if as_json:
        value = None if letter.value is None else letter.value.decode(errors="replace")
        note = None if case.note is None else case.note.headers()
        document = {"id": name, "headers": dict(letter.headers), "value": value, "note": note}
        print(json.dumps(document, ensure_ascii=False))
        return
    notes = {} if case.note is None else {key: text for key, text in case.note.headers().items() if key != "letter"}
    for header, text in (*letter.headers.items(), *notes.items()):
        print(f"{header:<17} {printable(text)}")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\n" + (letter.value or b"(the content was left out)") + b"\n")


@app.command()
def redrive(
    names: Names = None,
    reasons: Reasons = None,
    source: Source = None,
    evaluation_id: Evaluation = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    every: Every = False,
    rate: Rate = 100.0,
    dry_run: DryRun = False,
    comment: Comment = "",
    as_json: JsonOption = False,
) -> None:
    """Send dead requests again, byte for byte, once the reason is mended.

    Each letter is sent once, each request at most three times in all, and never one whose evaluation has a record.
    Exit 1 if any of those chosen cannot be sent.

    Example: glassbox dead-letters redrive --reason contract --since 6h --dry-run
    """
    from glassbox.cli.letters import Filter, chosen, with_record
    from glassbox.settings import Settings
    from streams.redrive import obstacle

    settings = Settings.load()
    broker = settings.broker()
    wanted = Filter(tuple(reasons or ()), source, evaluation_id, tenant, since, until)
    cases = chosen(broker, names or (), every, wanted)
    recorded = with_record(settings, [case.letter for case in cases])

    def against(case: Case) -> str | None:
        return obstacle(case) or ("its evaluation has a record" if case.letter.name in recorded else None)

    _carry_out(broker, cases, "redriven", against, rate, comment, dry_run=dry_run, as_json=as_json)


@app.command()
def discard(
    names: Names = None,
    reasons: Reasons = None,
    source: Source = None,
    evaluation_id: Evaluation = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    every: Every = False,
    rate: Rate = 1000.0,
    dry_run: DryRun = False,
    comment: Comment = "",
    as_json: JsonOption = False,
) -> None:
    """Let dead letters go: they are no longer open, and cannot be redriven. Their content stays on the topic until
    its retention ends.

    Example: glassbox dead-letters discard 2/17 --comment "our own load test"
    """
    from glassbox.cli.letters import Filter, chosen
    from glassbox.settings import Settings
    from streams.redrive import settled

    broker = Settings.load().broker()
    wanted = Filter(tuple(reasons or ()), source, evaluation_id, tenant, since, until)
    cases = chosen(broker, names or (), every, wanted)
    _carry_out(broker, cases, "discarded", settled, rate, comment, dry_run=dry_run, as_json=as_json)


def _carry_out(
    broker: Broker,
    cases: list[Case],
    action: Action,
    against: Callable[[Case], str | None],
    rate: float,
    comment: str,
    *,
    dry_run: bool,
    as_json: bool,
) -> NoReturn:
    """Do it to each letter that nothing is `against`, say what became of each, and exit."""
    from glassbox.cli.errors import FINDING
    from glassbox.cli.letters import act

    ready = []
    for case in cases:
        why = against(case)
        if why is None:
            ready.append(case.letter)
        else:
            _say_done(case.letter, "refused", why, as_json)
    would = "would be " if dry_run else ""
    for letter in ready if dry_run else act(broker, ready, action, rate, comment):
        _say_done(letter, f"{would}{action}", "", as_json)
    if not as_json:
        print(f"{len(ready)} {would}{action}, {len(cases) - len(ready)} refused")
    sys.exit(FINDING if len(ready) < len(cases) else 0)


def _document(case: Case) -> dict[str, object]:
    note = {} if case.note is None else {"note": case.note.headers()}
    return {"id": case.letter.name, **case.letter.headers, **note}


def _line(case: Case) -> str:
    from glassbox.cli.submit import describe

    headers = case.letter.headers
    where = f"{headers.get('source_topic')} {headers.get('source_partition')}/{headers.get('source_offset')}"
    done = "" if case.note is None else f" [{case.note.action} {case.note.at}]"
    return f"{case.letter.name:<8} {headers.get('first_seen', ''):<24} {where:<28} {describe(headers)}{done}"


def _say_done(letter: DeadLetter, result: str, why: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"id": letter.name, "result": result, **({"why": why} if why else {})}, ensure_ascii=False))
    else:
        name = letter.headers.get("evaluation_id", "")
        print(f"{letter.name:<8} {name:<24} {result}{': ' + why if why else ''}")
