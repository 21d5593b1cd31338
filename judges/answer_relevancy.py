"""Part `answer_relevancy`: whether the answer answers the question, by the questions that a model makes from it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.contract.verdict import Method, NotApplicable, Scored
from judges import ragas_metrics
from judges.asking import Asking, Finding
from judges.claims import SYSTEM, AnswerRelevanceOutput, check_question
from judges.faithfulness import REPEATS_DISAGREE, refuse_too_long
from judges.languages import NAMES, spoken
from judges.lexical.statements import abstains, noncommittal, statements
from judges.llm import Vectors
from judges.llm.schema import response_format
from judges.port import Case, JudgeError
from judges.shown import without_attacks

PART = "answer_relevancy"

VERSION = "2"
"""Of the rules of this file and `shown`; the prompt has a digest of its own."""

QUESTION_LANGUAGE = "question_language"
"""Flag where a question was in another language than the answer, also when asked for again by name."""

_AGAIN = "\n\nThe question must be in the language of the `response`{}."


@dataclass(frozen=True)
class _Run:
    """`value`: mean cosine; `raw`: Ragas' own value, which is 0 where all questions are noncommittal."""

    questions: list[AnswerRelevanceOutput]
    cosines: list[float]
    raw: float

    @property
    def value(self) -> float:
        return sum(self.cosines) / len(self.cosines)

    @property
    def evasive(self) -> bool:
        return all(asked.noncommittal for asked in self.questions)


async def find(case: Case, asking: Asking, claims: Callable[[], Awaitable[int | None]]) -> Finding:
    """`strictness` calls and one for embeddings, none where the answer abstains or has no word. `claims`: how many the
    other part found, None where it did not look; awaited only where the model calls the answer noncommittal.

    The question is made from the answer without what talks to the judge. Raises `JudgeError`.
    """
    given = case.input.answer or ""
    refuse_too_long(given)

    def not_applicable(cause: str, **evidence: Any) -> Finding:
        return Finding(NotApplicable(part=PART, cause=cause, method=method(case, asking)), evidence)

    answer = without_attacks(given).text
    if abstains(given) or abstains(answer):
        return not_applicable("abstained", noncommittal="by the offline rules")
    if not any(map(str.isalnum, answer)):
        return not_applicable("no_claims")
    step = _Step(case, asking, answer)
    first, *others = [await step.run() for _ in range(_repeats(case))]
    evidence: dict[str, Any] = {
        "questions": [
            {"question": asked.question, "noncommittal": asked.noncommittal, "cosine": round(similarity, 6)}
            for asked, similarity in zip(first.questions, first.cosines, strict=True)
        ],
        "library_value": first.raw,
    }
    flags: tuple[str, ...] = (QUESTION_LANGUAGE,) if step.foreign else ()
    values = [round(run.value, 6) for run in (first, *others)]
    if others:
        evidence |= {"repeats": values, "agreement": round(values.count(values[0]) / len(values), 6)}
        flags += (REPEATS_DISAGREE,) if len(set(values)) > 1 else ()
    if first.evasive:
        if await claims() == 0 or noncommittal(answer) or not statements(answer):
            return not_applicable("noncommittal", **evidence)
        flags += ("noncommittal_with_claims",)
    scored = Scored.of(
        PART,
        first.value,
        low=min(first.value, *values) if others else None,
        high=max(first.value, *values) if others else None,
        method=method(case, asking),
        flags=flags,
    )
    return Finding(scored, evidence)


def method(case: Case, asking: Asking) -> Method:
    """How this part is judged, as far as is known by now: the model as served, once it has answered."""
    endpoint = asking.client.endpoint
    return Method(
        name="ragas.answer_relevancy",
        family=endpoint.family,
        library="ragas",
        version=ragas_metrics.library().version,
        model=asking.served(),
        prompt_digest=_prompt_digest(),
        parameters={
            **asking.parameters(),
            "rules": VERSION,
            "strictness": _strictness(case),
            "repeats": _repeats(case),
            "embedding_model": endpoint.embedding_model,
            "variant": "a noncommittal flag does not make an answer with claims 0; cosine clamped at 0",
        },
    )


class _Step:
    """What is asked of the model about one answer."""

    def __init__(self, case: Case, asking: Asking, answer: str) -> None:
        query = case.input.query or ""
        self._query, self._answer = without_attacks(query).text or query, answer
        self._strictness = _strictness(case)
        self._asking, self._session = asking, asking.session()
        self._embedded: dict[tuple[str, ...], Vectors] = {}
        # The offline model's question is made of the answer's own words: of no language, so to say.
        self._language = None if asking.client.endpoint.family == "lexical" else spoken(answer)
        self.foreign = False

    async def run(self) -> _Run:
        """Questions, made anew each time, and their cosines with the query."""
        made: list[AnswerRelevanceOutput] = []
        questions: list[str] = []
        vectors: list[Vectors] = []

        async def ask() -> AnswerRelevanceOutput:
            made.append(await self._question())
            questions.append(made[-1].question)
            return made[-1]

        async def embed(texts: list[str]) -> Vectors:
            key = tuple(texts)
            if key not in self._embedded:
                self._embedded[key] = await self._session.embed(texts)
            vectors.append(self._embedded[key])
            return vectors[-1]

        raw = await ragas_metrics.answer_relevancy(
            self._query,
            self._answer,
            {AnswerRelevanceOutput: ask},
            strictness=self._strictness,
            embed=embed,
            questions=questions,
        )
        run = _Run(made, [cosine(vectors[0][0], vector) for vector in vectors[0][1:]], raw)
        if not math.isclose(raw, 0.0 if run.evasive else run.value, abs_tol=1e-6):
            raise JudgeError("crashed", "ragas' answer relevancy is not the mean cosine")
        return run

    async def _question(self) -> AnswerRelevanceOutput:
        """A question in the answer's language, asked for once more by name where it is not; `foreign` where it still
        is not."""
        asked = await self._ask()
        if self._is_foreign(asked):
            name = NAMES.get(self._language or "")
            asked = await self._ask(_AGAIN.format(f": {name}" if name else ""))
            self.foreign = self.foreign or self._is_foreign(asked)
        return asked

    def _is_foreign(self, asked: AnswerRelevanceOutput) -> bool:
        return None not in (self._language, said := spoken(asked.question)) and said != self._language

    async def _ask(self, more: str = "") -> AnswerRelevanceOutput:
        fields = {"response": self._answer}
        return await self._asking.say(self._session, AnswerRelevanceOutput, fields, check_question, more=more)


def cosine(a: Vectors, b: Vectors) -> float:
    """Cosine of two vectors of length above zero, in [-1, 1], in double precision."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    return float(np.clip(np.dot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y)), -1.0, 1.0))


def _strictness(case: Case) -> int:
    return int(case.settings[PART].get("strictness", 1))


def _repeats(case: Case) -> int:
    return int(case.settings[PART].get("repeats", 1))


@cache
def _prompt_digest() -> str:
    step = AnswerRelevanceOutput
    return sha256_hex(canonical([SYSTEM[step], _AGAIN, response_format(step)]))
