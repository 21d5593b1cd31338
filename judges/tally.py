"""Claims with their verdicts: where they stand, which of them count, and what share is supported."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judges.alignment import Aligned, Locator, support
from judges.claims import UNDECIDED, StatementVerdict, same_claim
from judges.shown import Shown
from judges.text import Span

MOST_PLACED = 300
"""Places of claims that are looked for; those beyond are `unaligned`."""


@dataclass(frozen=True)
class Claim:
    """`places`: where the answer makes it, each as `alignment.Locator` gives it, those outside of attacks first.
    `times`: how often. `attack`: it stands nowhere but in what talks to the judge. `undecided`: the offline model could
    not tell."""

    said: StatementVerdict
    places: list[dict[str, Any]]
    times: int
    attack: bool
    undecided: bool

    @property
    def counted(self) -> bool:
        """An attack earns nothing, but what it claims without support counts like any other claim."""
        return not (self.attack and self.said.verdict)


def placed(
    verdicts: Sequence[StatementVerdict], statements: Sequence[str], answer: Shown, *, lexical: bool
) -> list[Claim]:
    """The claims in their order. `statements`: all that were made, with those that say a claim again. `lexical`:
    whether the offline model judged; no other may call itself undecided."""
    locator = Locator(Aligned.of(answer))
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for statement in statements[:MOST_PLACED]:
        found[same_claim(statement)].append(locator.locate(statement))
    times = Counter(map(same_claim, statements))
    claims = []
    for said in verdicts:
        form = same_claim(said.statement)
        places = sorted(found[form] or [{"alignment": "unaligned"}], key=lambda place: _inside(place, answer.attacks))
        undecided = lexical and said.verdict == 1 and said.reason.startswith(UNDECIDED)
        attack = times[form] <= len(places) and _inside(places[0], answer.attacks)
        claims.append(Claim(said, places, times[form], attack, undecided))
    return claims


def _inside(place: dict[str, Any], attacks: Sequence[Span]) -> bool:
    """Whether more than half of the place is in attacks."""
    if "start" not in place:
        return False
    start, end = place["start"], place["end"]
    inside: int = sum(max(0, min(end, attack.end) - max(start, attack.start)) for attack in attacks)
    return 2 * inside > int(end - start)


@dataclass(frozen=True)
class Tally:
    """Of the claims that count: how many there are, are supported, and are undecided among the supported."""

    total: int
    supported: int
    undecided: int

    @classmethod
    def of(cls, claims: Sequence[Claim]) -> Tally:
        counted = [claim for claim in claims if claim.counted]
        return cls(len(counted), sum(c.said.verdict for c in counted), sum(c.undecided for c in counted))

    @property
    def score(self) -> float:
        """Supported claims by claims, in [0, 1]; 0 where none counts."""
        return self.supported / self.total if self.total else 0.0

    @property
    def low(self) -> float:
        """The score with the undecided claims as unsupported."""
        return (self.supported - self.undecided) / self.total if self.total else 0.0


def agreement(runs: Sequence[Sequence[StatementVerdict]]) -> float:
    """The share of the first run's claims that all other runs have with the same verdict, in [0, 1]."""
    others = [{(said.statement, said.verdict) for said in run} for run in runs[1:]]
    same = [all((said.statement, said.verdict) in other for other in others) for said in runs[0]]
    return sum(same) / len(same)


def evidence(
    claims: Sequence[Claim], passages: Sequence[Shown], names: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Each claim with its place in the answer and, where it is supported, the window of the passage that shares most
    of its words; where it is made more than once, how many `times`, and the places of those `again`. `names`: what to
    call each passage by."""
    aligned = [Aligned.of(passage) for passage in passages]
    rows = []
    for n, claim in enumerate(claims):
        found = support(claim.said.statement, aligned) if claim.said.verdict and n < MOST_PLACED else None
        if found is not None:
            found |= names[found["passage"]]
        rows.append(
            {
                "text": claim.said.statement,
                "verdict": claim.said.verdict,
                "undecided": claim.undecided,
                "reason": claim.said.reason,
                "answer": claim.places[0],
                "support": found,
                **({"times": claim.times, "again": claim.places[1:]} if claim.times > 1 else {}),
                **({} if claim.counted else {"counted": False}),
            }
        )
    return rows
