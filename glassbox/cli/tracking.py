"""Which of the requests we sent have been answered, by a receipt or by a dead letter. Plain code, no broker."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Position = tuple[int, int]
"""Partition and offset on the requests topic."""


@dataclass(frozen=True)
class Answer:
    """What became of one line: the record of its receipt, or the headers of its dead letter. `seconds` from its
    submission."""

    line: int
    seconds: float
    record: Mapping[str, Any] | None = None
    dead: Mapping[str, str] | None = None

    @property
    def outcome(self) -> str:
        return str(self.record["outcome"]) if self.record is not None else "dead_letter"


class Tracker:
    """Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self.answers: dict[int, Answer] = {}
        self.ids: dict[int, str | None] = {}
        self._at: dict[int, float] = {}
        self._lines: defaultdict[str, set[int]] = defaultdict(set)
        self._line_at: dict[Position, int] = {}
        self._early: dict[Position, tuple[Mapping[str, str], float]] = {}

    @property
    def pending(self) -> int:
        return len(self.ids) - len(self.answers)

    def unanswered(self) -> list[int]:
        """Lines without an answer."""
        return sorted(self.ids.keys() - self.answers.keys())

    def sent(self, line: int, evaluation_id: str | None, at: float) -> None:
        """`evaluation_id`: None where the request breaks the contract, so that only a dead letter can answer it."""
        self.ids[line], self._at[line] = evaluation_id, at
        if evaluation_id is not None:
            self._lines[evaluation_id].add(line)

    def delivered(self, line: int, position: Position) -> None:
        """The line stands at this position; its dead letter may have come before we knew."""
        self._line_at[position] = line
        early = self._early.pop(position, None)
        if early is not None:
            self.dead(position, *early)

    def receipt(self, evaluation_id: str, record: Mapping[str, Any], at: float) -> list[Answer]:
        """The answers that this receipt gives; none where it is another producer's."""
        lines = self._lines.get(evaluation_id, set()) - self.answers.keys()
        return [self._answer(Answer(line, at - self._at[line], record=record)) for line in sorted(lines)]

    def dead(self, position: Position, headers: Mapping[str, str], at: float) -> list[Answer]:
        """The answer that a dead letter of the requests topic gives."""
        line = self._line_at.get(position)
        if line is None:
            self._early[position] = (headers, at)
            return []
        if line in self.answers:
            return []
        return [self._answer(Answer(line, at - self._at[line], dead=headers))]

    def _answer(self, answer: Answer) -> Answer:
        self.answers[answer.line] = answer
        return answer

    def summary(self) -> dict[str, Any]:
        """Requests, evaluations, outcomes, and the times: seconds, evaluations a second, null without an answer."""
        answers = list(self.answers.values())
        seconds = sorted(answer.seconds for answer in answers)
        evaluations = {answer.record["evaluation_id"] for answer in answers if answer.record is not None}
        took = max((self._at[a.line] + a.seconds for a in answers), default=0.0) - min(self._at.values(), default=0.0)
        return {
            "requests": len(self.ids),
            "evaluations": len(evaluations),
            "unanswered": self.pending,
            "outcomes": dict(Counter(answer.outcome for answer in answers)),
            "seconds": round(took, 3) if answers else None,
            "per_second": round(len(evaluations) / took, 3) if evaluations and took > 0 else None,
            "p50_s": _quantile(seconds, 0.50),
            "p99_s": _quantile(seconds, 0.99),
        }


def _quantile(ordered: Sequence[float], q: float) -> float | None:
    """The smallest value that at least the share `q` of all does not exceed."""
    if not ordered:
        return None
    rank = max(0, -int(-q * len(ordered) // 1) - 1)
    return round(ordered[rank], 3)
