"""Reliability plots: what people say against what the judge scores, as lines of text and as an SVG document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from xml.sax.saxutils import escape

from glassbox.contract.agreement import Bin, Reliability

_WIDTH = 41
"""Columns of the text plot: one for each fortieth of the share, both ends included."""

_SIDE, _MARGIN, _COUNTS, _HEAD = 240, 48, 44, 40
"""SVG units: side of the square of shares, room around it, height of the bars of counts, height of the title."""

_STYLE = (
    "text{font:11px sans-serif;fill:#222}.title{font-size:13px;font-weight:bold}.axis{stroke:#888;fill:none}"
    ".ideal{stroke:#888;stroke-dasharray:4 3}.interval{stroke:#1f5fa8;stroke-width:2}.share{fill:#1f5fa8}"
    ".count{fill:#b9cbe0}"
)


def text_plot(found: Reliability) -> list[str]:
    """A line a bin: the scores' mean is `|`, the share that people call positive `●` on its interval."""
    lines = [f"{'score':<11} {'n':>6} {'mean':>5} {'people: yes':<19} 0{'share that people call yes':^{_WIDTH - 2}}1"]
    for each in found.bins:
        row = [" "] * _WIDTH
        low, high = _column(float(each.low)), _column(float(each.high))
        row[low : high + 1] = "─" * (high + 1 - low)
        row[_column(float(each.mean_score))] = "|"
        row[_column(float(each.share))] = "●"
        interval = f"{each.share:.2f} ({each.low:.2f} to {each.high:.2f})"
        lines.append(f"{_range(each):<11} {each.n:>6} {each.mean_score:>5.2f} {interval:<19} {''.join(row)}".rstrip())
    return lines


def _column(share: float) -> int:
    return round(share * (_WIDTH - 1))


def _range(each: Bin) -> str:
    return f"{each.lower:.1f} to {each.upper:.1f}"


def svg_plot(panels: Sequence[tuple[str, Reliability]]) -> str:
    """An SVG document with one panel for each (title, reliability), side by side, at least one."""
    wide, high = _SIDE + 2 * _MARGIN, _HEAD + _SIDE + _COUNTS + 2 * _MARGIN
    drawn = "".join(
        f'<g transform="translate({n * wide + _MARGIN} {_HEAD})">{"".join(_panel(title, found))}</g>'
        for n, (title, found) in enumerate(panels)
    )
    whole = wide * len(panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{high}" viewBox="0 0 {whole} {high}">'
        f"<title>Reliability</title><style>{_STYLE}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>{drawn}</svg>\n'
    )


def _panel(title: str, found: Reliability) -> Iterator[str]:
    error, total = found.expected_calibration_error, sum(each.n for each in found.bins)
    yield f'<text class="title" y="-22">{escape(title)}</text>'
    yield f'<text y="-7">{total} labelled scores, expected calibration error {error:.3f}</text>'
    yield f'<rect class="axis" width="{_SIDE}" height="{_SIDE}"/>'
    yield f'<line class="ideal" x1="0" y1="{_SIDE}" x2="{_SIDE}" y2="0"/>'
    for tick in (0.0, 0.5, 1.0):
        x = tick * _SIDE
        yield f'<text x="{x:.0f}" y="{_SIDE + _COUNTS + 22}" text-anchor="middle">{tick:g}</text>'
        yield f'<text x="-6" y="{_SIDE - x + 4:.0f}" text-anchor="end">{tick:g}</text>'
    yield f'<text x="{_SIDE // 2}" y="{_SIDE + _COUNTS + 38}" text-anchor="middle">score (bars: how many)</text>'
    yield f'<text transform="translate(-32 {_SIDE // 2}) rotate(-90)" text-anchor="middle">people: yes</text>'
    most = max(each.n for each in found.bins)
    for each in found.bins:
        x, y, top, bottom = (_place(each.mean_score), *(_SIDE - _place(v) for v in (each.share, each.high, each.low)))
        bar = (_COUNTS - 8) * each.n / most
        base = _SIDE + _COUNTS - bar
        left, width = _place(each.lower) + 1, _place(each.upper) - _place(each.lower) - 2
        yield (
            f"<g><title>{_range(each)}: {each.n} scores, mean {each.mean_score:.2f}, people say yes "
            f"{each.share:.2f} ({each.low:.2f} to {each.high:.2f})</title>"
            f'<rect class="count" x="{left:.1f}" y="{base:.1f}" width="{width:.1f}" height="{bar:.1f}"/>'
            f'<line class="interval" x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"/>'
            f'<circle class="share" cx="{x:.1f}" cy="{y:.1f}" r="4"/></g>'
        )


def _place(share: Decimal) -> float:
    return float(share) * _SIDE
