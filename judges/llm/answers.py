"""Reading what an endpoint returned: pure functions from response bytes to checked values."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from judges.llm.errors import EndpointError

Vectors = NDArray[np.float32]
"""Embeddings, shape (texts, dimensions)."""

CHARS_A_TOKEN = 4
"""Estimate of tokens where the endpoint reports no usage."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; `provenance` says whether the endpoint reported them."""

    prompt_tokens: int
    completion_tokens: int
    provenance: Literal["api", "estimated"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `raw`: the model's text in UTF-8, or the vectors as little-endian float32, row by row.
    `model`: as served. `finish_reason`: the endpoint's word, or `refusal`. `adapted`: the parameters of the request
    that this endpoint does not take as we send them (`dialect.PARAMETERS`), sorted."""

    model: str
    raw: bytes
    finish_reason: str
    usage: Usage
    adapted: tuple[str, ...] = ()

    def text(self) -> str:
        """The model's text. Raises `EndpointError` where it refused (refused) or was cut (truncated)."""
        if self.finish_reason in ("refusal", "content_filter"):
            raise EndpointError("refused", "the model refused to judge", final=True)
        if self.finish_reason in ("length", "max_tokens"):
            raise EndpointError("truncated", "the output was cut at max_tokens")
        return self.raw.decode()


def read_chat(body: bytes, model: str, prompt_chars: int) -> Answer:
    """A chat completion's answer. `prompt_chars` is for the estimate of tokens. Raises `EndpointError`
    (malformed_output) for a body that is no chat completion or that has no text."""
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        message = choice["message"]
        refusal, content = message.get("refusal"), message.get("content")
        text = refusal or content
        if not isinstance(text, str):
            raise TypeError
        raw = text.encode()
        reason = "refusal" if refusal else str(choice.get("finish_reason") or "stop")
        served = data.get("model")
        usage = _usage(data.get("usage"), prompt_chars, len(text))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise EndpointError("malformed_output", "the endpoint's response is no chat completion") from None
    return Answer(served if isinstance(served, str) and served else model, raw, reason, usage)


def read_embeddings(body: bytes, model: str, texts: Sequence[str]) -> Answer:
    """An embeddings response's vectors, put in the order of `texts` by their index; base64 or lists of numbers.
    Raises `EndpointError` (bad_embedding) where count, indices or lengths are not right."""
    try:
        data = json.loads(body)
        rows: dict[int, Vectors] = {item["index"]: _vector(item["embedding"]) for item in data["data"]}
        served = data.get("model")
        usage = _usage(data.get("usage"), sum(map(len, texts)), 0)
        if len(data["data"]) != len(texts) or sorted(rows) != list(range(len(texts))):
            raise EndpointError("bad_embedding", f"{len(data['data'])} vectors for {len(texts)} texts")
        raw = np.stack([rows[n] for n in range(len(texts))]).tobytes()
    except (ValueError, LookupError, TypeError, AttributeError, binascii.Error):
        raise EndpointError("bad_embedding", "the endpoint's response has no readable vectors") from None
    return Answer(served if isinstance(served, str) and served else model, raw, "stop", usage)


def joined(answers: Sequence[Answer], counts: Sequence[int]) -> Answer:
    """Several embeddings answers as one, in order; `counts`: their numbers of vectors. Raises `EndpointError`
    (bad_embedding) where their vectors differ in length."""
    if len({len(answer.raw) / count for answer, count in zip(answers, counts, strict=True)}) > 1:
        raise EndpointError("bad_embedding", "vectors of different lengths")
    usages = [answer.usage for answer in answers]
    return Answer(
        answers[0].model,
        b"".join(answer.raw for answer in answers),
        "stop",
        Usage(
            sum(usage.prompt_tokens for usage in usages),
            0,
            "api" if all(usage.provenance == "api" for usage in usages) else "estimated",
        ),
        tuple(sorted({name for answer in answers for name in answer.adapted})),
    )


def vectors_from(raw: bytes, count: int) -> Vectors:
    """`count` vectors from little-endian float32 bytes. Raises `EndpointError` (bad_embedding) unless all are
    finite and none has length zero: a cosine with such a vector means nothing."""
    if not raw or len(raw) % (4 * count):
        raise EndpointError("bad_embedding", "vectors of different lengths")
    vectors = np.frombuffer(raw, dtype="<f4").reshape(count, -1)
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    if not np.isfinite(norms).all():
        raise EndpointError("bad_embedding", "a vector is not finite")
    if not norms.all():
        raise EndpointError("bad_embedding", "a vector of length zero")
    return vectors


def _vector(value: Any) -> Vectors:
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    return np.asarray(value, dtype="<f4").reshape(-1)


def _usage(reported: Any, prompt_chars: int, completion_chars: int) -> Usage:
    match reported:
        case {"prompt_tokens": int(prompt)} if prompt > 0:
            completion = reported.get("completion_tokens") or 0
            return Usage(prompt, completion if isinstance(completion, int) else 0, "api")
    return Usage(-(-prompt_chars // CHARS_A_TOKEN), -(-completion_chars // CHARS_A_TOKEN), "estimated")
