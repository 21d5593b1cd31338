"""`glassbox watch`: scorecards as the ledger takes them, dead letters as they come."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from glassbox.cli.answers import DeadLetter
    from glassbox.contract.events import Receipt

_LINE = "{evaluation:<30} {trust:>5} {ctx:>5} {faith:>5} {struct:>6}  {outcome:<10} {weakest}"


def watch(
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Everything the broker still has.")] = False,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show scorecards as they reach the ledger, and dead letters, until Ctrl-C.

    Example: glassbox watch --json | jq .outcome
    """
    from glassbox.cli.answers import Feed
    from glassbox.cli.cards import JUDGES
    from glassbox.settings import Settings

    settings = Settings.load()
    policies = {policy.digest: policy.document for policy in settings.policies().values()}
    feed = Feed(settings.broker(), from_end=not from_beginning)
    seen = 0
    try:
        if not as_json:
            names = ("evaluation", "trust", *JUDGES.values(), "outcome")
            print(_LINE.format(**{name: name for name in names}, weakest="weakest part"), flush=True)
        while count is None or seen < count:
            for event in feed.read(0.5):
                line = _json_of(event) if as_json else _line(event, policies)
                if line is not None and (count is None or seen < count):
                    print(line, flush=True)
                    seen += 1
    except KeyboardInterrupt:
        sys.exit()
    finally:
        feed.close()


def _line(event: Receipt | DeadLetter, policies: dict[str, dict[str, Any]]) -> str | None:
    from glassbox.cli.answers import DeadLetter
    from glassbox.cli.cards import JUDGES, row, short, short_id
    from glassbox.cli.submit import describe

    if isinstance(event, DeadLetter):
        headers = event.headers
        place = f"{headers.get('source_partition')}/{headers.get('source_offset')}"
        return f"dead letter: {headers.get('source_topic')} {place}: {describe(headers)}"
    if event.record["kind"] != "scorecard":
        return None
    shown = row(event.record, policies.get(event.record["policy_digest"]), {})
    judges = {column: short(shown.judges.get(judge)) for judge, column in JUDGES.items()}
    return _LINE.format(
        evaluation=short_id(shown.evaluation_id),
        trust=short(shown.trust, 3),
        outcome=shown.outcome,
        weakest=shown.weakest,
        **judges,
    )


def _json_of(event: Receipt | DeadLetter) -> str | None:
    from glassbox.cli.answers import DeadLetter

    if isinstance(event, DeadLetter):
        return json.dumps({"dead_letter": event.headers}, ensure_ascii=False)
    if event.record["kind"] != "scorecard":
        return None
    return json.dumps(event.record | {"result": event.result}, ensure_ascii=False)
