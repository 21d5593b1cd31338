"""Figures as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from glassbox.replay.compare import Change
from glassbox.replay.evaluate import RunReference
from glassbox.replay.metrics import Unit

_NONE = "–"


def headings(runs: Sequence[RunReference]) -> list[str]:
    """What each of some runs is called beside the others: its system, and its id where they have one system."""
    systems = [f"{run.system.name} {run.system.version}" for run in runs]
    return [
        f"{system} ({run.run_id})" if systems.count(system) > 1 else system
        for run, system in zip(runs, systems, strict=True)
    ]


def amount(value: float | None, unit: Unit) -> str:
    """A figure with as many digits as say something."""
    if value is None:
        return _NONE
    if unit == "share":
        return f"{value:.3f}"
    digits = 0 if abs(value) >= 100 else 1
    return f"{value:,.{digits}f}{' ms' if unit == 'ms' else ''}"


def difference(value: float | None, unit: Unit) -> str:
    """A change with its sign."""
    if value is None:
        return _NONE
    shown = amount(abs(value), unit)
    if not any(digit in shown for digit in "123456789"):
        return "±" + shown if value else "0"
    return ("+" if value > 0 else "−") + shown


def share_of_base(change: Change) -> str:
    """The change in per cent of the base; "" where that says nothing."""
    if not change.relative:
        return ""
    sign = "+" if change.relative > 0 else "−"
    return f"{sign}{abs(change.relative):.1%}".replace("%", " %")


def interval_text(change: Change) -> str:
    """The bounds of the interval."""
    if change.low is None or change.high is None:
        return _NONE
    return f"{difference(change.low, change.unit)} … {difference(change.high, change.unit)}"


def counts(change: Change) -> str:
    """n, of both where they differ, and then how many they have in common, which the change is over."""
    base, candidate = change.base.n, change.candidate.n
    if base == candidate == change.pairs:
        return str(base)
    return f"{base} → {candidate}" + (f", {change.pairs} in both" if change.pairs else "")
