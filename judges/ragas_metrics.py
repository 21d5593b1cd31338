"""Ragas' faithfulness and answer relevancy: the library counts, our steps ask.

Ragas 0.4.3 by itself scores whatever verdicts arrive: with one of four missing, .50 becomes .67; a verdict of 2 counts
as support; no claims is NaN; a vector of zeros is NaN. What reaches it from here has been checked.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np

from judges.llm import Output, Vectors
from judges.port import JudgeError

Steps = Mapping[type[Output], Callable[[], Awaitable[Output]]]
"""By the schema of the output, named as Ragas names it: what gives the output of that step."""


@cache
def library() -> SimpleNamespace:
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
        """None: a step words its own."""

        def __init__(self) -> None: ...

        def to_string(self, data: Any) -> str:
            return ""

    class Model(InstructorBaseRagasLLM):
        """The steps as a Ragas model."""

        def __init__(self, steps: Steps) -> None:
            self.steps = {schema.__name__: step for schema, step in steps.items()}

        def generate(self, prompt: str, response_model: Any) -> Any:
            raise NotImplementedError("this model is asynchronous: use agenerate")

        async def agenerate(self, prompt: str, response_model: Any) -> Any:
            if (step := self.steps.get(response_model.__name__)) is None:
                raise JudgeError("crashed", "ragas asked for an output that this adapter does not know")
            return response_model.model_validate((await step()).model_dump())

    class Embeddings(BaseRagasEmbedding):
        """The query and the questions in one call, where the library makes two: it asks for the query first, when it
        has all questions."""

        def __init__(self, embed: Callable[[list[str]], Awaitable[Vectors]], questions: Sequence[str]) -> None:
            super().__init__()
            self.embed, self.questions = embed, questions
            self.vectors: Vectors | None = None

        def embed_text(self, text: str, **_: Any) -> Any:
            raise NotImplementedError("these embeddings are asynchronous: use aembed_text")

        async def aembed_text(self, text: str, **_: Any) -> Any:
            self.vectors = await self.embed([text, *self.questions])
            return self.vectors[0].astype(np.float64)

        async def aembed_texts(self, texts: list[str], **_: Any) -> Any:
            if self.vectors is None or texts != list(self.questions):
                raise JudgeError("crashed", "ragas embeds other texts than this adapter expects")
            return self.vectors[1:].astype(np.float64)

    return SimpleNamespace(
        AnswerRelevancy=AnswerRelevancy,
        Embeddings=Embeddings,
        Faithfulness=Faithfulness,
        Model=Model,
        Prompt=Prompt,
        version=version("ragas"),
    )


async def faithfulness(query: str, answer: str, contexts: Sequence[str], steps: Steps) -> float:
    """Ragas' value: supported statements by statements; NaN without any."""
    ragas = library()
    metric = ragas.Faithfulness(llm=ragas.Model(steps))
    metric.statement_generator_prompt = metric.nli_statement_prompt = ragas.Prompt()
    result = await metric.ascore(user_input=query, response=answer, retrieved_contexts=list(contexts))
    return float(result.value)


async def answer_relevancy(
    query: str,
    answer: str,
    steps: Steps,
    *,
    strictness: int,
    embed: Callable[[list[str]], Awaitable[Vectors]],
    questions: Sequence[str],
) -> float:
    """Ragas' value: the mean cosine of the query with the questions, 0 where all are noncommittal. `questions` is
    complete when the step has been asked `strictness` times; `embed` is given the query and then them."""
    ragas = library()
    metric = ragas.AnswerRelevancy(
        llm=ragas.Model(steps), embeddings=ragas.Embeddings(embed, questions), strictness=strictness
    )
    metric.prompt = ragas.Prompt()
    return float((await metric.ascore(user_input=query, response=answer)).value)
