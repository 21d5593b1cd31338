"""Whether the answer is supported by what was retrieved, and whether it answers the question: Ragas' faithfulness and
answer relevancy, with everything checked that the model says.

Ragas 0.4.3 by itself scores whatever verdicts arrive: with one of four missing, .50 becomes .67; a verdict of 2 counts
as support; no claims is NaN; a vector of zeros is NaN.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np

from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.contract.request import JudgeInput
from glassbox.contract.verdict import Failed, Method, NotApplicable, Scored
from judges.alignment import Aligned, locate, support
from judges.claims import (
    SYSTEM,
    UNDECIDED,
    AnswerRelevanceOutput,
    NLIStatementOutput,
    StatementGeneratorOutput,
    StatementVerdict,
    check_question,
    check_statements,
    in_order,
    user_message,
    wilson,
)
from judges.lexical.statements import abstains, noncommittal, statements
from judges.llm import Call, EndpointClient, Session, Vectors
from judges.llm.schema import M, response_format
from judges.port import NEEDS, Case, JudgeError, Judgement

FAITHFULNESS, RELEVANCY = "faithfulness", "answer_relevancy"

TOKENS_A_CLAIM = 90
"""Room in the output for one claim with its reason and verdict."""

VERSION = "1"
"""Of the rules of this file (what is refused, left out, not applicable); the prompts have digests of their own."""

_log = logging.getLogger(__name__)


@cache
def _ragas() -> SimpleNamespace:
    """The library and our adapters to it. Raises `JudgeError` (model_missing) where it is not installed."""
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from ragas.embeddings.base import BaseRagasEmbedding
            from ragas.llms.base import InstructorBaseRagasLLM
            from ragas.metrics.collections import AnswerRelevancy, Faithfulness
            from ragas.prompt.metrics.base_prompt import BasePrompt
    except ImportError as error:
        raise JudgeError(
            "model_missing", f"ragas cannot be imported ({error.name}); install it with: pip install glassbox"
        ) from error

    class Prompt(BasePrompt[Any, Any]):
        """The user's message alone: the instructions are the system prompt, the schema travels beside it."""

        def __init__(self, passages: Sequence[str] | None = None) -> None:
            """`passages` stand in the place of the library's one joined context."""
            self.fixed = {} if passages is None else {"passages": list(passages)}

        def to_string(self, data: Any) -> str:
            return user_message(self.fixed | {name: value for name, value in data if name != "context"})

    class Model(InstructorBaseRagasLLM):
        """The endpoint as a Ragas model, for one part of one case. Keeps what was said: the metrics return a value
        and nothing else."""

        def __init__(self, session: Session, answer: str, *, some_claims: bool = False) -> None:
            self.session, self.answer, self.some_claims = session, answer, some_claims
            self.statements: list[str] = []
            self.verdicts: list[StatementVerdict] = []
            self.questions: list[AnswerRelevanceOutput] = []

        def generate(self, prompt: str, response_model: Any) -> Any:
            raise NotImplementedError("this model is asynchronous: use agenerate")

        async def agenerate(self, prompt: str, response_model: Any) -> Any:
            match response_model.__name__:
                case "StatementGeneratorOutput":
                    said = await self._say(
                        prompt,
                        StatementGeneratorOutput,
                        lambda output: check_statements(output, some=self.some_claims),
                        tokens=len(self.answer) // 2,
                    )
                    self.statements = said.statements
                    return response_model(statements=self.statements)
                case "NLIStatementOutput":
                    judged = await self._say(
                        prompt,
                        NLIStatementOutput,
                        lambda output: in_order(output.statements, self.statements),
                        tokens=TOKENS_A_CLAIM * len(self.statements) + len(self.answer) // 2,
                    )
                    self.verdicts = in_order(judged.statements, self.statements)
                    return response_model.model_validate({"statements": [v.model_dump() for v in self.verdicts]})
                case "AnswerRelevanceOutput":
                    asked = await self._say(prompt, AnswerRelevanceOutput, check_question)
                    self.questions.append(asked)
                    return response_model.model_validate(asked.model_dump())
            raise JudgeError("crashed", "ragas asked for an output that this adapter does not know")

        async def _say(self, prompt: str, schema: type[M], accept: Callable[[M], object], *, tokens: int = 0) -> M:
            messages = ({"role": "system", "content": SYSTEM[schema]}, {"role": "user", "content": prompt})
            return await self.session.chat(messages, schema, accept, tokens=tokens)

    class Embeddings(BaseRagasEmbedding):
        """The endpoint's embeddings: the query and the questions in one call, where the library makes two."""

        def __init__(self, session: Session, model: Model) -> None:
            super().__init__()
            self.session, self.model = session, model
            self.vectors: Vectors | None = None

        def embed_text(self, text: str, **_: Any) -> Any:
            raise NotImplementedError("these embeddings are asynchronous: use aembed_text")

        async def aembed_text(self, text: str, **_: Any) -> Any:
            """The query: Ragas asks for it first, when it has all questions."""
            self.vectors = await self.session.embed([text, *(asked.question for asked in self.model.questions)])
            return self.vectors[0].astype(np.float64)

        async def aembed_texts(self, texts: list[str], **_: Any) -> Any:
            if self.vectors is None or texts != [asked.question for asked in self.model.questions]:
                raise JudgeError("crashed", "ragas embeds other texts than this adapter expects")
            return self.vectors[1:].astype(np.float64)

    return SimpleNamespace(
        AnswerRelevancy=AnswerRelevancy,
        Faithfulness=Faithfulness,
        Embeddings=Embeddings,
        Model=Model,
        Prompt=Prompt,
        version=version("ragas"),
    )


@dataclass(frozen=True)
class _Part:
    """What came of one part. `claims`: how many the model found in the answer, None where it did not say."""

    verdict: Scored | NotApplicable | Failed
    evidence: dict[str, Any]
    calls: Sequence[Call] = ()
    claims: int | None = None


@dataclass(frozen=True)
class _Context:
    """What the claims are held against. `origin`: the request field; `places` and `ids` by position in `texts`."""

    origin: str
    texts: list[str]
    places: list[int]
    ids: list[str | None]
    blank: int

    @classmethod
    def of(cls, given: JudgeInput) -> _Context:
        """The passages, or the source documents where no passage has a word."""
        passages = cls._from("passages", given.retrieved_passages or [])
        return passages if passages.texts else cls._from("source_documents", given.source_documents or [])

    @classmethod
    def _from(cls, origin: str, documents: Sequence[Any]) -> _Context:
        kept = [(n, document) for n, document in enumerate(documents) if any(map(str.isalnum, document.text))]
        return cls(
            origin,
            [document.text for _, document in kept],
            [n for n, _ in kept],
            [document.id for _, document in kept],
            len(documents) - len(kept),
        )


class GroundingJudge:
    """Worker kind `grounding`: parts faithfulness and answer_relevancy, side by side; one may fail without the other.
    Raises `JudgeError` where ragas is not installed."""

    kind = "grounding"
    needs = NEEDS["grounding"]

    def __init__(self, client: EndpointClient) -> None:
        self._client, self._library = client, _ragas()

    async def judge(self, case: Case) -> Judgement:
        """Faithfulness: two calls; answer relevancy: `strictness` calls and one for embeddings."""
        tasks: dict[str, asyncio.Task[_Part]] = {}
        async with asyncio.TaskGroup() as group:
            if FAITHFULNESS in case.settings:
                tasks[FAITHFULNESS] = group.create_task(self._guarded(case, FAITHFULNESS, self._faithfulness))
            faithful = tasks.get(FAITHFULNESS)
            if RELEVANCY in case.settings:
                tasks[RELEVANCY] = group.create_task(
                    self._guarded(case, RELEVANCY, lambda case, session: self._relevancy(case, session, faithful))
                )
        parts = {name: task.result() for name, task in tasks.items()}
        return Judgement(
            tuple(part.verdict for part in parts.values()),
            {name: part.evidence | {"calls": [call.evidence() for call in part.calls]} for name, part in parts.items()},
            tuple(call.answer.raw for part in parts.values() for call in part.calls),
        )

    async def _guarded(self, case: Case, part: str, work: Callable[[Case, Session], Awaitable[_Part]]) -> _Part:
        session = self._client.session(case.deadline, case.cache)
        try:
            return await work(case, session)
        except JudgeError as error:
            cause, detail = error.cause, error.detail
        except Exception as error:
            cause, detail = "crashed", type(error).__name__
            _log.error("%s of %s crashed: %s", part, case.evaluation_id, detail)
        method = self._method(part, case)
        return _Part(Failed(part=part, cause=cause, detail=detail, method=method), {}, session.calls)

    async def _faithfulness(self, case: Case, session: Session) -> _Part:
        answer = case.input.answer or ""
        context = _Context.of(case.input)
        offline = statements(answer)
        if not context.texts:
            return self._without_context(case, offline)
        least = 1 if self._client.endpoint.family == "lexical" else 2
        model = self._library.Model(session, answer, some_claims=len(offline) >= least)
        metric = self._library.Faithfulness(llm=model)
        metric.statement_generator_prompt = self._library.Prompt()
        metric.nli_statement_prompt = self._library.Prompt(context.texts)
        result = await metric.ascore(
            user_input=case.input.query or "", response=answer, retrieved_contexts=context.texts
        )
        method = self._method(FAITHFULNESS, case, session)
        where = {"context": context.origin, "blank": context.blank}
        if not model.statements:
            verdict = NotApplicable(
                part=FAITHFULNESS,
                cause="abstained" if abstains(answer) else "no_claims",
                method=method,
                # The offline rules see an assertion where the model sees none: worth a person's look.
                flags=("claims_disputed",) if offline else (),
            )
            return _Part(verdict, where | {"claims": []}, session.calls, 0)
        n, k = len(model.verdicts), sum(verdict.verdict for verdict in model.verdicts)
        undecided = [
            v.verdict == 1 and method.family == "lexical" and v.reason.startswith(UNDECIDED) for v in model.verdicts
        ]
        if not math.isclose(float(result.value), k / n, abs_tol=1e-9):
            raise JudgeError("crashed", "ragas' faithfulness is not supported claims by claims")
        evidence = where | {
            "claims": _claims(model.verdicts, undecided, answer, context),
            "supported": k,
            "undecided": sum(undecided),
            "total": n,
            "wilson_95": [round(bound, 6) for bound in wilson(k, n)],
            "support_method": "lexical_alignment",
        }
        scored = Scored.of(FAITHFULNESS, k / n, low=(k - sum(undecided)) / n, high=k / n, method=method)
        return _Part(scored, evidence, session.calls, n)

    def _without_context(self, case: Case, offline: Sequence[str]) -> _Part:
        """Neither passages nor source documents: no call. Under `empty_context = "unsupported"` an answer that claims
        something is not supported; what it claims is found by the offline rules."""
        if case.settings[FAITHFULNESS].get("empty_context") != "unsupported":
            verdict = NotApplicable(part=FAITHFULNESS, cause="no_passages", method=self._method(FAITHFULNESS, case))
            return _Part(verdict, {"context": None})
        method = Method(
            name="glassbox.faithfulness@empty_context",
            family="rules",
            library="glassbox",
            version=VERSION,
            parameters={"claims": "offline", "empty_context": "unsupported"},
        )
        answer = case.input.answer or ""
        if not offline:
            cause = "abstained" if abstains(answer) else "no_claims"
            return _Part(
                NotApplicable(part=FAITHFULNESS, cause=cause, method=method), {"context": None, "claims": []}, claims=0
            )
        claims = [{"text": claim, "verdict": 0, "reason": "nothing was retrieved"} for claim in offline]
        evidence = {"context": None, "claims": claims, "supported": 0, "total": len(claims)}
        return _Part(Scored.of(FAITHFULNESS, 0.0, method=method), evidence, claims=len(claims))

    async def _relevancy(self, case: Case, session: Session, faithful: asyncio.Task[_Part] | None) -> _Part:
        answer = case.input.answer or ""
        if abstains(answer):
            verdict = NotApplicable(part=RELEVANCY, cause="noncommittal", method=self._method(RELEVANCY, case))
            return _Part(verdict, {"noncommittal": "by the offline rules"})
        model = self._library.Model(session, answer)
        embeddings = self._library.Embeddings(session, model)
        metric = self._library.AnswerRelevancy(llm=model, embeddings=embeddings, strictness=_strictness(case))
        metric.prompt = self._library.Prompt()
        raw = float((await metric.ascore(user_input=case.input.query or "", response=answer)).value)
        cosines = [cosine(embeddings.vectors[0], vector) for vector in embeddings.vectors[1:]]
        value = sum(cosines) / len(cosines)
        evasive = all(asked.noncommittal for asked in model.questions)
        if not math.isclose(raw, 0.0 if evasive else value, abs_tol=1e-6):
            raise JudgeError("crashed", "ragas' answer relevancy is not the mean cosine")
        method = self._method(RELEVANCY, case, session)
        evidence = {
            "questions": [
                {"question": asked.question, "noncommittal": asked.noncommittal, "cosine": round(similarity, 6)}
                for asked, similarity in zip(model.questions, cosines, strict=True)
            ],
            "library_value": raw,
        }
        if evasive:
            claims = None if faithful is None else (await faithful).claims
            if claims == 0 or noncommittal(answer) or not statements(answer):
                verdict = NotApplicable(part=RELEVANCY, cause="noncommittal", method=method)
                return _Part(verdict, evidence, session.calls)
        flags = ("noncommittal_with_claims",) if evasive else ()
        return _Part(Scored.of(RELEVANCY, value, method=method, flags=flags), evidence, session.calls)

    def _method(self, part: str, case: Case, session: Session | None = None) -> Method:
        endpoint = self._client.endpoint
        parameters: dict[str, Any] = {**endpoint.parameters(), "rules": VERSION}
        if part == FAITHFULNESS:
            parameters["context"] = _Context.of(case.input).origin
        else:
            parameters |= {
                "strictness": _strictness(case),
                "embedding_model": endpoint.embedding_model,
                "variant": "a noncommittal flag does not make an answer with claims 0; cosine clamped at 0",
            }
        chats = [call for call in session.calls if call.schema != "embeddings"] if session else []
        return Method(
            name=f"ragas.{part}",
            family=endpoint.family,
            library="ragas",
            version=self._library.version,
            model=chats[-1].answer.model if chats else endpoint.model,
            prompt_digest=_prompt_digest(part),
            parameters=parameters,
        )

    async def close(self) -> None:
        """Nothing to close: the client belongs to whoever made it."""


@cache
def _prompt_digest(part: str) -> str:
    steps = (StatementGeneratorOutput, NLIStatementOutput) if part == FAITHFULNESS else (AnswerRelevanceOutput,)
    return sha256_hex(canonical([[SYSTEM[step], response_format(step)] for step in steps] + [user_message({})]))


def _strictness(case: Case) -> int:
    return int(case.settings[RELEVANCY].get("strictness", 1))


def cosine(a: Vectors, b: Vectors) -> float:
    """Cosine of two vectors of length above zero, in [-1, 1], in double precision."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    return float(np.clip(np.dot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y)), -1.0, 1.0))


def _claims(
    verdicts: Sequence[StatementVerdict], undecided: Sequence[bool], answer: str, context: _Context
) -> list[dict[str, Any]]:
    """Each claim with its place in the answer and, where it is supported, the window of the passage that carries it."""
    text = Aligned.of(answer)
    passages = [Aligned.of(passage) for passage in context.texts]
    made: list[dict[str, Any]] = []
    after = 0
    for verdict, open_ in zip(verdicts, undecided, strict=True):
        place = locate(verdict.statement, text, after)
        after = place.get("end", after)
        found = support(verdict.statement, passages) if verdict.verdict else None
        if found is not None:
            n = found["passage"]
            found |= {"passage": context.places[n], "id": context.ids[n]}
        made.append(
            {
                "text": verdict.statement,
                "verdict": verdict.verdict,
                "undecided": open_,
                "reason": verdict.reason,
                "answer": place,
                "support": found,
            }
        )
    return made
