"""The join's fold: (window, event, append time) -> (window, emission). Pure: no clock, no broker, no process.

Each evaluation is a window of its own, from its announcement to its last answer or its deadline. The scorecard is a
function of logged events alone, so replaying the log makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from glassbox.contract.composite import enabled_parts
from glassbox.contract.events import Announced, DeadlinePassed, Judged, scorecard_record
from glassbox.contract.judge_settings import kind_of_parts
from glassbox.contract.record import evidence_digest
from glassbox.contract.verdict import Failed, NotApplicable, Scored, part_row

ORPHAN_MS = 300_000
"""A window that no announcement opened is dropped this long after its first event (DESIGN §4.1 rule 18)."""


@dataclass(frozen=True, slots=True)
class Window:
    """An open evaluation. `first_at`, `announced_at`: append times in ms. `claims`: announcements of other requests
    under the same id, to be judged by the ledger once the scorecard is out."""

    first_at: int
    announced: Announced | None = None
    announced_at: int = 0
    answers: Mapping[tuple[str, ...], Judged] = field(default_factory=dict)
    claims: tuple[Announced, ...] = ()

    def due_at(self) -> int:
        """When a `DeadlinePassed` takes effect, ms by append time."""
        if self.announced is None:
            return self.first_at + ORPHAN_MS
        return self.announced_at + round(self.announced.deadline_s * 1000)


@dataclass(frozen=True, slots=True)
class Card:
    """The window is closed: a scorecard record, and the announcements to be settled after it."""

    announced: Announced
    record: dict[str, Any]
    claims: tuple[Announced, ...]


@dataclass(frozen=True, slots=True)
class Dropped:
    """The window is closed without a card: no announcement ever came."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The event concerns nothing that is open."""


Emission = Card | Dropped | Stale | None


def step(
    window: Window | None, event: Announced | Judged | DeadlinePassed, timestamp: int
) -> tuple[Window | None, Emission]:
    """Fold one event, appended at `timestamp` ms, into an evaluation's window."""
    if isinstance(event, DeadlinePassed):
        if window is None:
            return None, Stale()
        if timestamp < window.due_at():
            return window, None  # some clock ran ahead; the timer sends again
        return _close(window, timestamp) if window.announced else (None, Dropped())
    window = window or Window(first_at=timestamp)
    if isinstance(event, Announced):
        window = _announce(window, event, timestamp)
    else:
        window = _answer(window, event)
    announced = window.announced
    if announced is not None and all(_counted(window, announced, kind) for kind in announced.kinds):
        return _close(window, timestamp)
    return window, None


def _announce(window: Window, event: Announced, timestamp: int) -> Window:
    if window.announced is None:
        return replace(window, announced=event, announced_at=timestamp)
    if window.announced.request_digest != event.request_digest:
        return replace(window, claims=(*window.claims, event))
    return window  # the same request again: the first announcement stands whole


def _answer(window: Window, event: Judged) -> Window:
    key = _key(event.kind, event.request_digest, event.policy_digest, event.intake_run if event.failed else "")
    if key in window.answers:
        return window
    return replace(window, answers={**window.answers, key: event})


def _key(kind: str, request_digest: str, policy_digest: str, run: str) -> tuple[str, ...]:
    return kind, request_digest, policy_digest, run


def _counted(window: Window, announced: Announced, kind: str) -> Judged | None:
    """The first answer for the announced request and policy; a failed one only from the announced run (rule 6)."""
    task = kind, announced.request_digest, announced.policy_digest
    return window.answers.get(_key(*task, "")) or window.answers.get(_key(*task, announced.intake_run))


def _close(window: Window, timestamp: int) -> tuple[None, Card]:
    announced = window.announced
    assert announced is not None
    counted = {kind: _counted(window, announced, kind) for kind in announced.kinds}
    kind_of = kind_of_parts(announced.policy)
    rows = []
    for part in enabled_parts(announced.policy):
        judged = counted.get(kind_of[part])
        verdicts = judged.verdicts if judged else ()
        missing: Scored | NotApplicable | Failed = Failed(part=part, cause="crashed" if judged else "deadline")
        if announced.skipped is not None:
            missing = NotApplicable(part=part, cause=announced.skipped)
        rows.append(part_row(next((v for v in verdicts if v.part == part), missing)))
    evidence = {kind: judged.evidence_digest for kind, judged in counted.items() if judged and judged.evidence_digest}
    record = scorecard_record(announced, rows, evidence_digest(evidence), timestamp)
    return None, Card(announced, record, window.claims)
