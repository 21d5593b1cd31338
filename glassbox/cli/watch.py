"""`glassbox watch`: scorecards as the ledger takes them, dead letters as they come."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from glassbox.contract.events import Receipt
    from streams.redrive import DeadLetter


def watch(
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Everything the broker still has.")] = False,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show scorecards as they reach the ledger, and dead letters, until Ctrl-C.

    Example: glassbox watch --json | jq .outcome
    """
    from glassbox.cli.answers import Feed
    from glassbox.cli.cards import columns
    from glassbox.settings import Settings

    settings = Settings.load()
    policies = {policy.digest: policy.document for policy in settings.policies().values()}
    judges = columns(judge for document in policies.values() for judge in document["judges"])
    feed = Feed(settings.broker(), from_end=not from_beginning)
    seen = 0
    try:
        if not as_json:
            print(_columns("evaluation", "trust", judges, judges, "outcome", "weakest part"), flush=True)
        while count is None or seen < count:
            for event in feed.read(0.5):
                line = _json_of(event) if as_json else _line(event, policies, judges)
                if line is not None and (count is None or seen < count):
                    print(line, flush=True)
                    seen += 1
    except KeyboardInterrupt:
        sys.exit()
    finally:
        feed.close()


def _columns(
    evaluation: str, trust: str, figures: Mapping[str, str], judges: Mapping[str, str], outcome: str, weakest: str
) -> str:
    """`figures`: judge -> what stands in its column; `judges`: judge -> the column's title, which has its width."""
    scores = " ".join(f"{figures[judge]:>{max(len(title), 5)}}" for judge, title in judges.items())
    return f"{evaluation:<30} {trust:>5} {scores}  {outcome:<10} {weakest}"


def _line(event: Receipt | DeadLetter, policies: Mapping[str, dict[str, Any]], judges: Mapping[str, str]) -> str | None:
    from glassbox.cli.cards import row, short, short_id
    from glassbox.cli.submit import describe
    from streams.redrive import DeadLetter

    if isinstance(event, DeadLetter):
        headers = event.headers
        place = f"{headers.get('source_partition')}/{headers.get('source_offset')}"
        return f"dead letter: {headers.get('source_topic')} {place}: {describe(headers)}"
    if event.record["kind"] != "scorecard":
        return None
    shown = row(event.record, policies.get(event.record["policy_digest"]), {})
    figures = {judge: short(shown.judges.get(judge)) for judge in judges}
    trust = short(shown.trust, 3)
    return _columns(short_id(shown.evaluation_id), trust, figures, judges, shown.outcome, shown.weakest)


def _json_of(event: Receipt | DeadLetter) -> str | None:
    from streams.redrive import DeadLetter

    if isinstance(event, DeadLetter):
        return json.dumps({"dead_letter": event.headers}, ensure_ascii=False)
    if event.record["kind"] != "scorecard":
        return None
    return json.dumps(event.record | {"result": event.result}, ensure_ascii=False)
