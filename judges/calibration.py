"""Whether a retriever's scores order passages as their similarity to the query does, and whether it found its entities.

The similarity is an embedding's: a retriever that scores by other signals may rightly disagree with it. Only the order
counts, so that scores may be on any scale. Passages that overlap count each, as their retriever scored each; passages
of the same words count once, with the best of their scores; the order of the list changes nothing.
"""

import asyncio
import math
import statistics
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from glassbox.contract.request import JudgeInput
from glassbox.contract.verdict import Failed, Method, NotApplicable, Scored
from judges.embedders import Embedded, Embedder, Vectors
from judges.names import name_form, terms
from judges.port import NEEDS, Case, JudgeError, Judgement
from judges.text import RULES, sentences

PART = "similarity_calibration"
LEAST = 5
"""Distinct passages under which a rank correlation says nothing: three random ranks agree fully in 17 % of cases."""
LEAST_ORDERS = 20
"""Different orders that scores, and similarities, must allow: with four of five tied, chance agrees fully in 20 %."""
PLACES = 4
"""Similarities are rounded so: what differs by less is a tie, not an order."""


def kendall_tau_b(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Kendall's tau-b of two rankings of equal length, in [-1, 1]; None where one of them is constant.

    (concordant - discordant) / sqrt((pairs - ties in x) (pairs - ties in y)), Kendall 1945; O(n log n) comparisons.
    The counts are integers, so that equal orders give exactly 1 and opposite ones exactly -1.
    """
    pairs = sorted(zip(x, y, strict=True))
    total = math.comb(len(pairs), 2)
    ties_x, ties_y = _ties(x), _ties(y)
    if ties_x == total or ties_y == total:
        return None
    concordant = discordant = 0
    seen: list[float] = []
    for _, group in groupby(pairs, key=lambda pair: pair[0]):
        values = [value for _, value in group]
        for value in values:
            concordant += bisect_left(seen, value)
            discordant += len(seen) - bisect_right(seen, value)
        for value in values:
            insort(seen, value)
    tau = (concordant - discordant) / math.sqrt((total - ties_x) * (total - ties_y))
    return min(max(tau, -1.0), 1.0)


def _ties(values: Sequence[float]) -> int:
    return sum(math.comb(count, 2) for count in Counter(values).values())


def cosines(vectors: Vectors) -> list[float]:
    """Cosine of the first row with each other, in [-1, 1]. Raises `JudgeError` (bad_embedding) where a vector is not
    finite or has length zero: its cosine means nothing."""
    rows = vectors.astype(np.float64)
    norms = np.linalg.norm(rows, axis=1)
    if not np.isfinite(norms).all() or not norms.all():
        raise JudgeError("bad_embedding", "a vector is not finite or has length zero")
    rows /= norms[:, None]
    return [float(value) for value in np.clip(rows[1:] @ rows[0], -1.0, 1.0)]


@dataclass(frozen=True)
class _Passage:
    position: int
    name: str
    phrase: str
    score: float | None


class CalibrationJudge:
    """Worker kind `calibration`. Closes its embedder."""

    kind = "calibration"
    needs = NEEDS["calibration"]

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def judge(self, case: Case) -> Judgement:
        """One call for all embeddings; none where there is no passage with a word."""
        if PART not in case.settings:
            return Judgement((), {})
        higher_is_better = bool(case.settings[PART].get("higher_is_better", True))
        method = self._method(self._embedder.model, higher_is_better)
        passages, evidence = await asyncio.to_thread(_read, case.input, higher_is_better)
        if not passages:
            return Judgement((NotApplicable(part=PART, cause="no_passages", method=method),), evidence)
        given = case.input.retrieved_passages or []
        try:
            embedded = await self._embedder.embed(
                case.input.query or "", [given[passage.position].text for passage in passages], case
            )
            similarities = _similarities(embedded, len(passages))
        except JudgeError as error:
            failed = Failed(part=PART, cause=error.cause, detail=error.detail, method=method)
            return Judgement((failed,), evidence)
        method = self._method(embedded.model, higher_is_better)
        ranks = _rank_agreement(passages, similarities, higher_is_better)
        evidence |= {
            "similarity": distribution([value for value in similarities if value is not None]),
            "passages": [
                {
                    "passage": each.name,
                    "position": each.position,
                    "similarity": None if value is None else round(value, 6),
                    "score": each.score,
                }
                for each, value in zip(passages, similarities, strict=True)
            ],
            "rank_agreement": ranks,
            "calls": list(embedded.calls),
        }
        halves = [half["score"] for half in (ranks, evidence["entity_hits"]) if half["score"] is not None]
        verdict: Scored | NotApplicable = (
            Scored.of(PART, statistics.fmean(halves), method=method)
            if halves
            else NotApplicable(part=PART, cause=ranks["cause"], method=method)
        )
        return Judgement((verdict,), evidence, embedded.raw)

    def _method(self, model: str, higher_is_better: bool) -> Method:
        return Method(
            name="glassbox.similarity_calibration",
            family=self._embedder.family,
            library="judges.calibration",
            version="2",
            model=model,
            parameters={
                "score": "mean of the halves that apply: (1 + Kendall tau-b) / 2, entity hit rate",
                "similarity": f"cosine, rounded to {PLACES} places",
                "least_passages": LEAST,
                "least_orders": LEAST_ORDERS,
                "repeated_passages": "best score",
                "higher_is_better": higher_is_better,
                "entities": "normal form of names, on word bounds",
                "words": RULES,
                "embedder": dict(self._embedder.parameters),
            },
        )

    async def close(self) -> None:
        await self._embedder.close()


def _read(given: JudgeInput, higher_is_better: bool) -> tuple[list[_Passage], dict[str, Any]]:
    """The distinct passages that have a word, each text at its first place with the best of its scores, and what can
    be said without a model: what was left out, and the entities that stand in them."""
    best = max if higher_is_better else min
    kept: dict[str, _Passage] = {}
    blank: list[int] = []
    repeated: list[int] = []
    for position, passage in enumerate(given.retrieved_passages or []):
        phrase = _phrase(passage.text)
        score = given.chunk_scores[position] if given.chunk_scores is not None else None
        if not phrase:
            blank.append(position)
        elif (first := kept.get(phrase)) is None:
            kept[phrase] = _Passage(position, passage.id or str(position), phrase, score)
        else:
            repeated.append(position)
            if first.score is not None and score is not None:
                kept[phrase] = replace(first, score=best(first.score, score))
    passages = list(kept.values())
    hits = {"entity_hits": _entity_hits(given.retrieved_entities or [], passages)} if passages else {}
    return passages, {"left_out": {"blank": blank, "repeated": repeated}, **hits}


def _phrase(text: str) -> str:
    """The words of a text between spaces, so that one text is found in another on word bounds alone."""
    said = " ".join(term.text for span in sentences(text) for term in terms(text[span.start : span.end]))
    return f" {said} " if said else ""


def _similarities(embedded: Embedded, count: int) -> list[float | None]:
    """One a passage; None where the model cannot read it, or cannot read the query. Raises `JudgeError`."""
    if len(embedded.vectors) != count + 1:
        raise JudgeError("count_mismatch", f"{len(embedded.vectors)} vectors for {count + 1} texts")
    read = [n for n in range(1, count + 1) if n not in embedded.unread and 0 not in embedded.unread]
    made: list[float | None] = [None] * count
    for n, value in zip(read, cosines(embedded.vectors[[0, *read]]) if read else [], strict=True):
        made[n - 1] = value
    return made


def _rank_agreement(
    passages: Sequence[_Passage], similarities: Sequence[float | None], higher_is_better: bool
) -> dict[str, Any]:
    pairs = [
        (round(value, PLACES), passage.score if higher_is_better else -passage.score)
        for passage, value in zip(passages, similarities, strict=True)
        if value is not None and passage.score is not None
    ]
    half: dict[str, Any] = {"passages": len(pairs), "tau_b": None, "score": None, "cause": None}
    if any(passage.score is None for passage in passages):
        return half | {"cause": "no_scores"}
    if len(pairs) < LEAST:
        return half | {"cause": "other_script" if None in similarities and len(passages) >= LEAST else "too_few"}
    near, scored = zip(*pairs, strict=True)
    tau = kendall_tau_b(near, scored)
    if tau is None:
        return half | {"cause": "constant"}
    if min(orders(near), orders(scored)) < LEAST_ORDERS:
        return half | {"cause": "too_few"}
    return half | {"tau_b": tau, "score": (1 + tau) / 2}


def orders(values: Sequence[float]) -> int:
    """In how many different orders the values can stand: the multinomial coefficient of their ties."""
    return math.factorial(len(values)) // math.prod(math.factorial(count) for count in Counter(values).values())


def _entity_hits(entities: Sequence[str], passages: Sequence[_Passage]) -> dict[str, Any]:
    """Each entity once, under the first of its spellings."""
    phrases = {f" {name_form(entity, terms(entity))} ": entity for entity in reversed(entities)}
    phrases.pop("  ", None)
    known = {word for passage in passages for word in passage.phrase.split()}  # a quick no for most that are absent

    def standing_in(phrase: str) -> list[str]:
        if not known.issuperset(phrase.split()):
            return []
        return [each.name for each in passages if phrase in each.phrase]

    rows = [{"entity": entity, "passages": standing_in(phrase)} for phrase, entity in reversed(phrases.items())]
    found = sum(bool(row["passages"]) for row in rows)
    return {"entities": rows, "found": found, "score": found / len(rows) if rows else None}


def distribution(values: Sequence[float]) -> dict[str, float | int | None] | None:
    """Count, mean, standard deviation (of the sample; null for one) and quartiles (inclusive); None of nothing."""
    if not values:
        return None
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    return {
        "count": len(values),
        "mean": round(statistics.fmean(values), 6),
        "stdev": round(statistics.stdev(values), 6) if len(values) > 1 else None,
        "min": round(min(values), 6),
        "q1": round(low, 6),
        "median": round(middle, 6),
        "q3": round(high, 6),
        "max": round(max(values), 6),
    }
