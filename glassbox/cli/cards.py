"""Scorecards as people read them: one row each, with the part that cost most trust and why."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from glassbox.dossier.arithmetic import weakest
from glassbox.dossier.reasons import why

JUDGES = {
    "contextual_precision": "ctx",
    "semantic_faithfulness": "faith",
    "structural_fidelity": "struct",
}
"""Judge of the product -> its column."""


def columns(judges: Iterable[str]) -> dict[str, str]:
    """Judge -> its column: those of the product, then one's own in their alphabetical order."""
    return JUDGES | {name: name for name in sorted(set(judges) - JUDGES.keys())}


_COLOURS = {"pass": "green", "review": "yellow", "fail": "red", "incomplete": "magenta"}

Card = Mapping[str, Any]
"""A record of kind scorecard, or what `composite.compose` gives with an `evaluation_id`."""


@dataclass(frozen=True)
class Row:
    """Figures are 6-place decimal strings or None."""

    evaluation_id: str
    trust: str | None
    judges: Mapping[str, str | None]
    outcome: str
    weakest: str


def row(
    card: Card,
    policy: Mapping[str, Any] | None,
    evidence: Mapping[str, Mapping[str, Any]],
    verdicts: Iterable[Mapping[str, Any]] = (),
) -> Row:
    """`evidence`: worker kind -> its evidence; `verdicts`: those of the parts as JSON; both as far as at hand."""
    part = weakest(card, policy)
    details = {verdict["part"]: verdict.get("detail", "") for verdict in verdicts}
    return Row(
        evaluation_id=card["evaluation_id"],
        trust=card["trust"],
        judges={judge["judge"]: judge["score"] for judge in card["judges"]},
        outcome=card["outcome"],
        weakest=why(part, evidence, details.get(part["part"], "")) if part else "",
    )


def short(figure: str | None, places: int = 2) -> str:
    """A recorded figure with fewer places, cut and not rounded, so that none looks as if it reached a threshold that
    it missed; "–" where there is none."""
    return "–" if figure is None else figure[: 2 + places]


def short_id(evaluation_id: str) -> str:
    """Derived ids are 64 digits: enough of them to find one again with `show`."""
    return evaluation_id if len(evaluation_id) <= 30 else f"{evaluation_id[:16]}…"


def print_table(rows: Iterable[Row], notes: Mapping[str, str] | None = None, note_title: str = "") -> None:
    """To stdout: as wide as the terminal, or whole lines where stdout is not one. `notes`: evaluation id -> what
    stands in a column of its own."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    judges = columns(judge for each in rows for judge in each.judges)
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold underline")
    table.add_column("evaluation", no_wrap=True)
    for name in ("trust", *judges.values()):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    if notes is not None:
        table.add_column(note_title)
    table.add_column("weakest part, and why")
    for each in rows:
        table.add_row(
            Text(short_id(each.evaluation_id)),
            short(each.trust, 3),
            *(short(each.judges.get(judge)) for judge in judges),
            Text(each.outcome, style=_COLOURS.get(each.outcome, "")),
            *([Text(notes.get(each.evaluation_id, ""))] if notes is not None else []),
            Text(each.weakest),
        )
    console.print(table)
