"""Where the calibration judge's embeddings come from: the model endpoint, a model of this process, or what was kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glassbox.contract.canonical import canonical, sha256_hex
from judges.lexical import EMBEDDING_MODEL
from judges.llm import EndpointClient
from judges.llm.recorded import NOT_RECORDED
from judges.port import Case, JudgeError

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Embedded:
    """`vectors`: one row a text, the query's first. `model`: as served. `calls` and `raw`: what was asked and the raw
    outputs. `unread`: the rows of texts that the model cannot read; what stands there means nothing."""

    vectors: Vectors
    model: str
    calls: tuple[dict[str, Any], ...] = ()
    raw: tuple[bytes, ...] = ()
    unread: frozenset[int] = frozenset()


class Embedder(Protocol):
    """`family`, `model` and `parameters` (JSON without floats) name it in the method of a verdict."""

    family: str
    model: str
    parameters: Mapping[str, Any]

    async def embed(self, query: str, passages: Sequence[str], case: Case) -> Embedded:
        """Embed all texts by the case's deadline. Raises `JudgeError`."""
        ...

    async def close(self) -> None: ...


class EndpointEmbedder:
    """The embeddings of the OpenAI-compatible endpoint."""

    parameters: Mapping[str, Any] = {}

    def __init__(self, client: EndpointClient) -> None:
        self._client = client
        self.model = client.endpoint.embedding_model
        self.family = "lexical" if self.model == EMBEDDING_MODEL else "embedding"

    async def embed(self, query: str, passages: Sequence[str], case: Case) -> Embedded:
        session = self._client.session(case.deadline, case.cache)
        vectors = await session.embed([query, *passages])
        answers = [call.answer for call in session.calls]
        return Embedded(
            vectors,
            answers[-1].model if answers else self.model,
            tuple(call.evidence() for call in session.calls),
            tuple(answer.raw for answer in answers),
        )

    async def close(self) -> None:
        """Nothing to close: the client belongs to whoever made it."""


def input_digest(model: str, query: str, passages: Sequence[str]) -> str:
    """SHA-256 of what a model of this process was asked to embed, hexadecimal."""
    texts = [sha256_hex(text.encode()) for text in (query, *passages)]
    return sha256_hex(canonical({"schema": "embeddings", "model": model, "texts": texts}))


class RecordedEmbedder:
    """What a model of this process said before. `method`: that of the verdict, as JSON. `calls`: those of the evidence;
    `outputs`: the raw outputs that they cite by SHA-256."""

    def __init__(
        self, method: Mapping[str, Any], calls: Iterable[Mapping[str, Any]], outputs: Mapping[str, bytes]
    ) -> None:
        self.family, self.model = method["family"], method["model"]
        self.parameters = method["parameters"]["embedder"]
        self._calls = {call["input_digest"]: call for call in calls if "input_digest" in call}
        self._outputs = outputs

    async def embed(self, query: str, passages: Sequence[str], case: Case) -> Embedded:
        """Raises `JudgeError` (unavailable) for texts that were not embedded then."""
        call = self._calls.get(input_digest(self.model, query, passages))
        raw = None if call is None else self._outputs.get(call["output_digest"])
        if call is None or raw is None:
            raise JudgeError("unavailable", NOT_RECORDED)
        vectors = np.frombuffer(raw, dtype="<f4").reshape(1 + len(passages), -1)
        return Embedded(vectors, self.model, (dict(call),), (raw,), frozenset(call["unread"]))

    async def close(self) -> None:
        """Nothing is held."""
