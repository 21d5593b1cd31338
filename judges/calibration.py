"""Whether a retriever's scores order passages as their similarity to the query does, and whether it found its entities.

The similarity is an embedding's: a retriever that scores by other signals may rightly disagree with it.
"""

import math
import statistics
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glassbox.contract.request import JudgeInput
from glassbox.contract.verdict import Failed, Method, NotApplicable, Scored
from judges.lexical import EMBEDDING_MODEL
from judges.llm import EndpointClient
from judges.names import terms
from judges.port import NEEDS, Case, JudgeError, Judgement
from judges.text import sentences

PART = "similarity_calibration"
LEAST = 5
"""Distinct passages under which a rank correlation says nothing: three random ranks agree fully in 17 % of cases."""
PLACES = 4
"""Similarities are rounded so: what differs by less is a tie, not an order."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Embedded:
    """`vectors`: one row a text. `model`: as served. `calls` and `raw`: what was asked and the raw outputs."""

    vectors: Vectors
    model: str
    calls: tuple[dict[str, Any], ...] = ()
    raw: tuple[bytes, ...] = ()


class Embedder(Protocol):
    """Where embeddings come from. `family` and `model` name it in the method of a verdict."""

    family: str
    model: str

    async def embed(self, texts: Sequence[str], case: Case) -> Embedded:
        """Embed all texts by the case's deadline. Raises `JudgeError`."""
        ...


class EndpointEmbedder:
    """The embeddings of the OpenAI-compatible endpoint."""

    def __init__(self, client: EndpointClient) -> None:
        self._client = client
        self.model = client.endpoint.embedding_model
        self.family = "lexical" if self.model == EMBEDDING_MODEL else "embedding"

    async def embed(self, texts: Sequence[str], case: Case) -> Embedded:
        session = self._client.session(case.deadline, case.cache)
        vectors = await session.embed(texts)
        answers = [call.answer for call in session.calls]
        return Embedded(
            vectors,
            answers[-1].model if answers else self.model,
            tuple(call.evidence() for call in session.calls),
            tuple(answer.raw for answer in answers),
        )


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
    """Worker kind `calibration`."""

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
        passages, evidence = _passages(case.input)
        if not passages:
            return Judgement((NotApplicable(part=PART, cause="no_passages", method=method),), evidence)
        given = case.input.retrieved_passages or []
        try:
            embedded = await self._embedder.embed(
                [case.input.query or "", *(given[passage.position].text for passage in passages)], case
            )
            similarities = cosines(embedded.vectors)
            if len(similarities) != len(passages):
                raise JudgeError("count_mismatch", f"{len(similarities)} vectors for {len(passages)} passages")
        except JudgeError as error:
            failed = Failed(part=PART, cause=error.cause, detail=error.detail, method=method)
            return Judgement((failed,), evidence)
        method = self._method(embedded.model, higher_is_better)
        evidence |= {
            "similarity": distribution(similarities),
            "passages": [
                {"passage": each.name, "position": each.position, "similarity": round(value, 6), "score": each.score}
                for each, value in zip(passages, similarities, strict=True)
            ],
            "calls": list(embedded.calls),
        }
        ranks = _rank_agreement(passages, similarities, higher_is_better)
        hits = _entity_hits(case.input.retrieved_entities or [], passages)
        evidence["rank_agreement"], evidence["entity_hits"] = ranks, hits
        halves = [half["score"] for half in (ranks, hits) if half["score"] is not None]
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
            version="1",
            model=model,
            parameters={
                "score": "mean of the halves that apply: (1 + Kendall tau-b) / 2, entity hit rate",
                "similarity": f"cosine, rounded to {PLACES} places",
                "least_passages": LEAST,
                "higher_is_better": higher_is_better,
                "entities": "case folded, on word bounds",
                "words": "judges.text/1",
            },
        )

    async def close(self) -> None:
        """Nothing to close: the embedder belongs to whoever made it."""


def _passages(given: JudgeInput) -> tuple[list[_Passage], dict[str, Any]]:
    """The distinct passages that have a word, each text at its first place, and what was left out."""
    scores = given.chunk_scores
    kept: dict[str, _Passage] = {}
    blank: list[int] = []
    repeated: list[int] = []
    for position, passage in enumerate(given.retrieved_passages or []):
        phrase = _phrase(passage.text)
        if phrase and phrase not in kept:
            kept[phrase] = _Passage(
                position, passage.id or str(position), phrase, scores[position] if scores is not None else None
            )
        else:
            (repeated if phrase else blank).append(position)
    return list(kept.values()), {"left_out": {"blank": blank, "repeated": repeated}}


def _phrase(text: str) -> str:
    """The words of a text between spaces, so that one text is found in another on word bounds alone."""
    said = " ".join(term.text for span in sentences(text) for term in terms(text[span.start : span.end]))
    return f" {said} " if said else ""


def _rank_agreement(
    passages: Sequence[_Passage], similarities: Sequence[float], higher_is_better: bool
) -> dict[str, Any]:
    scores = [passage.score for passage in passages if passage.score is not None]
    half: dict[str, Any] = {"passages": len(passages), "tau_b": None, "score": None, "cause": None}
    if len(scores) < len(passages):
        return half | {"cause": "no_scores"}
    if len(passages) < LEAST:
        return half | {"cause": "too_few"}
    tau = kendall_tau_b(
        [round(value, PLACES) for value in similarities],
        scores if higher_is_better else [-score for score in scores],
    )
    if tau is None:
        return half | {"cause": "constant"}
    return half | {"tau_b": tau, "score": (1 + tau) / 2}


def _entity_hits(entities: Sequence[str], passages: Sequence[_Passage]) -> dict[str, Any]:
    phrases = {_phrase(entity): entity for entity in reversed(entities)}
    phrases.pop("", None)
    rows = [
        {"entity": entity, "passages": [each.name for each in passages if phrase in each.phrase]}
        for phrase, entity in reversed(phrases.items())
    ]
    found = sum(bool(row["passages"]) for row in rows)
    return {"entities": rows, "found": found, "score": found / len(rows) if rows else None}


def distribution(values: Sequence[float]) -> dict[str, float | int | None]:
    """Count, mean, standard deviation (of the sample; null for one value) and quartiles (inclusive)."""
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
