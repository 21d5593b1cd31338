"""Pieces of the report that are drawn: bars, intervals, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import accumulate

from glassbox.replay.compare import Change, Verdict, cases_lost
from glassbox.replay.taxonomy import CLASSES, Class

_BAR, _PLOT = 36, 20
"""Heights in pixels."""

_PILLS: Mapping[Verdict, tuple[str, str]] = {
    "regressed": ("bad", "▼ regressed"),
    "improved": ("good", "▲ improved"),
    "unclear": ("doubt", "? too few to tell"),
    "not_measured": ("doubt", "? not measured"),
    "unchanged": ("", "unchanged"),
    "within_noise": ("", "within noise"),
    "not_applicable": ("", "not applicable"),
}


def escaped(text: str) -> str:
    """Text as text, also inside a quoted attribute."""
    return escape(text, quote=True)


def title_case(name: str) -> str:
    """A class of the taxonomy in words."""
    return name.replace("_", " ")


def pill(change: Change) -> str:
    """What the change is called."""
    kind, said = _PILLS[change.verdict]
    if change.lost and change.verdict == "unclear":
        said = f"? {cases_lost(change.lost)}"
    reason = escaped(change.reason)
    return f"<span class='pill {kind}' title='{reason}'>{said}<span class='hidden'>: {reason}</span></span>"


def bars(sides: Sequence[tuple[str, Mapping[Class, int]]]) -> str:
    """A stacked bar for each side, one under the other so that their parts can be compared; success first. Places are
    in per cent, so that the figures stay readable at any width; where one does not fit, the table below has it."""
    return "".join(_bar(name, classes) for name, classes in sides)


def _bar(name: str, classes: Mapping[Class, int]) -> str:
    present = [each for each in reversed(CLASSES) if classes[each]]
    total = sum(classes.values()) or 1
    ends = [100 * count / total for count in accumulate(classes[each] for each in present)]
    drawn = []
    for each, start, end in zip(present, [0.0, *ends], ends, strict=False):
        what = f"{title_case(each)}: {classes[each]} of {total}"
        place = f"x='{start:.2f}%' y='0' width='{end - start:.2f}%' height='{_BAR}'"
        drawn.append(f"<g class='{each}'><title>{what}</title><rect class='fill' {place}/>")
        if end - start > 2 + 2 * len(str(classes[each])):
            middle = (start + end) / 2
            drawn.append(f"<text x='{middle:.2f}%' y='{_BAR / 2 + 5}' text-anchor='middle'>{classes[each]}</text>")
        drawn.append("</g>")
    heading = f"<h3>{escaped(name)}</h3>" if name else ""
    said = f"{name or 'Cases'}: " + ", ".join(f"{classes[each]} {title_case(each)}" for each in present)
    return (
        f"{heading}<svg class='bar' width='100%' height='{_BAR}' role='img' aria-label='{escaped(said)}'>"
        f"{''.join(drawn)}</svg>"
    )


def interval_plot(change: Change) -> str:
    """The change and its interval around no change, on a scale of the row's own."""
    if change.delta is None or change.allowed is None:
        return ""
    bounds = (change.low or 0.0, change.high or 0.0)
    most = max(abs(value) for value in (change.delta, *bounds, change.allowed)) * 1.1 or 1.0
    middle = _PLOT / 2

    def x(value: float) -> str:
        return f"{50 * (1 + value / most):.2f}%"

    drawn = [
        f"<rect class='allowed' x='{x(-change.allowed)}' y='3' width='{100 * change.allowed / most:.2f}%' "
        f"height='{_PLOT - 6}'/>",
        f"<line class='zero' x1='50%' y1='0' x2='50%' y2='{_PLOT}'/>",
    ]
    if change.low is not None and change.high is not None:
        drawn.append(f"<line class='span' x1='{x(change.low)}' y1='{middle}' x2='{x(change.high)}' y2='{middle}'/>")
    drawn.append(f"<circle class='dot' cx='{x(change.delta)}' cy='{middle}' r='4.5'/>")
    return f"<svg width='100%' height='{_PLOT}' aria-hidden='true'>{''.join(drawn)}</svg>"
