"""What one evaluation asks of an endpoint: retries, the response cache and the log of calls."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from glassbox.contract.canonical import canonical, sha256_hex
from judges.llm.answers import Answer, Usage, Vectors, joined, read_chat, read_embeddings, vectors_from
from judges.llm.endpoint import EMBEDDING_BATCH
from judges.llm.errors import EndpointError
from judges.llm.retry import ANSWERED, group, retry_delay
from judges.llm.schema import M, Output, parse, response_format
from judges.port import ResponseCache

if TYPE_CHECKING:
    from judges.llm.client import EndpointClient

T = TypeVar("T")

EMBEDDINGS = "embeddings"
"""What calls for embeddings have in the place of a schema's name."""

Messages = Sequence[Mapping[str, str]]
"""Chat messages: {`role`, `content`} each."""


def _anything(_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Call:
    """An answer that arrived, used or not. `schema`: the output's schema, or EMBEDDINGS. `asked`: the model's name
    as asked for; the answer has it as served. `sample` tells apart the answers to one prompt; `rejected`: the cause
    for which it was not used. Nothing in it depends on time, so that the evidence of a second run is the same."""

    schema: str
    asked: str
    sample: int
    prompt_digest: str
    answer: Answer
    rejected: str | None = None

    def evidence(self) -> dict[str, Any]:
        """As JSON; the raw output is named by its SHA-256."""
        usage = self.answer.usage
        return {
            "schema": self.schema,
            "sample": self.sample,
            "asked": self.asked,
            "model": self.answer.model,
            "prompt_digest": self.prompt_digest,
            "output_digest": sha256_hex(self.answer.raw),
            "finish_reason": self.answer.finish_reason,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "usage_provenance": usage.provenance,
            "rejected": self.rejected,
            **({"adapted": list(self.answer.adapted)} if self.answer.adapted else {}),
        }


class Session:
    """Made by `EndpointClient.session`, for one evaluation or one part of it. `calls` logs the answers that arrived,
    from the cache too, in order of arrival."""

    def __init__(self, client: EndpointClient, deadline: float, store: ResponseCache | None) -> None:
        self.calls: list[Call] = []
        self._client, self._deadline, self._store = client, deadline, store
        self._drawn: Counter[str] = Counter()

    async def chat(
        self, messages: Messages, schema: type[M], accept: Callable[[M], object] = _anything, *, tokens: int = 0
    ) -> M:
        """The model's answer to `messages` as `schema`. The same messages asked twice are two samples. `tokens`: the
        room that the output needs, where that is more than the endpoint's `max_tokens`.

        `accept` raises `EndpointError` (malformed_output, count_mismatch, no_question) for an answer of the right
        shape that cannot be used: it is asked for again once, as is one that is malformed; one that was cut is asked
        for again with twice the tokens. Raises `EndpointError` with the last cause.
        """
        endpoint = self._client.endpoint
        limit = max(endpoint.max_tokens, tokens)
        settings = {"model": endpoint.model, "messages": list(messages), "temperature": endpoint.temperature}

        async def draw(sample: int, cut: bool) -> Answer:
            body: dict[str, Any] = {**settings, "response_format": response_format(schema)}
            body["max_tokens"] = limit * (2 if cut else 1)
            if sample:
                body["seed"] = sample
            raw, adapted = await self._client.ask("/chat/completions", body, self._deadline)
            return replace(read_chat(raw, endpoint.model, sum(len(m["content"]) for m in messages)), adapted=adapted)

        def use(answer: Answer) -> M:
            made = parse(answer.text(), schema)
            accept(made)
            return made

        request = {**settings, "max_tokens": limit, "schema": format_digest(schema)}
        return await self._ask(schema.__name__, request, draw, use)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Embeddings, float32 of shape (len(texts), dimensions), in the order of `texts`: all finite, none of length
        zero. Raises `EndpointError`, with cause bad_embedding where the endpoint returned anything else."""
        if not texts:
            raise ValueError("nothing to embed")
        model = self._client.endpoint.embedding_model

        async def batch(part: Sequence[str]) -> Answer:
            body = {"model": model, "input": part, "encoding_format": "base64"}
            raw, adapted = await self._client.ask("/embeddings", body, self._deadline)
            return replace(read_embeddings(raw, model, part), adapted=adapted)

        async def draw(_sample: int, _cut: bool) -> Answer:
            parts = [texts[n : n + EMBEDDING_BATCH] for n in range(0, len(texts), EMBEDDING_BATCH)]
            return joined(await _all([batch(part) for part in parts]), [len(part) for part in parts])

        def use(answer: Answer) -> Vectors:
            return vectors_from(answer.raw, len(texts))

        return await self._ask(EMBEDDINGS, {"model": model, "input": list(texts)}, draw, use)

    async def _ask(
        self,
        name: str,
        request: Mapping[str, Any],
        draw: Callable[[int, bool], Awaitable[Answer]],
        use: Callable[[Answer], T],
    ) -> T:
        """`request` is what the answer depends on, wherever the endpoint is; `draw` makes one call (sample, and
        whether an answer was cut before); `use` makes the value of an answer or raises `EndpointError`."""
        client = self._client
        digest = sha256_hex(canonical(request))
        sample = self._next_sample(digest)
        key = sha256_hex(f"1:{digest}:{sample}".encode())
        if (known := await self._recall(key)) is not None:
            try:
                made = use(known[-1].answer)
            except EndpointError:
                pass  # kept under rules that have changed since: ask
            else:
                client.stats.answers += 1
                client.stats.cache_hits += 1
                self._drawn[digest] += len(known) - 1
                self.calls += known
                return made
        asked: list[Call] = []
        failures: Counter[str] = Counter()
        cut = False
        while True:
            try:
                answer = await draw(sample, cut)
                client.stats.prompt_tokens += answer.usage.prompt_tokens
                client.stats.completion_tokens += answer.usage.completion_tokens
                try:
                    made = use(answer)
                except EndpointError as error:
                    asked.append(Call(name, request["model"], sample, digest, answer, error.cause))
                    self.calls.append(asked[-1])
                    raise
            except EndpointError as error:
                failures[group(error.cause)] += 1
                client.stats.failures[error.cause] += 1
                delay = retry_delay(
                    error,
                    failures[group(error.cause)],
                    remaining_s=self._deadline - time.monotonic(),
                    call_limit_s=client.endpoint.call_limit_s,
                    jitter=client.jitter(),
                )
                if delay is None:
                    raise
                client.stats.retries[error.cause] += 1
                if error.cause in ANSWERED:
                    sample, cut = self._next_sample(digest), cut or error.cause == "truncated"
                await asyncio.sleep(delay)
            else:
                client.stats.answers += 1
                asked.append(Call(name, request["model"], sample, digest, answer))
                self.calls.append(asked[-1])
                if self._store is not None:
                    await self._store.put(key, _encode(asked))
                return made

    def _next_sample(self, digest: str) -> int:
        self._drawn[digest] += 1
        return self._drawn[digest] - 1

    async def _recall(self, key: str) -> list[Call] | None:
        kept = None if self._store is None else await self._store.get(key)
        return None if kept is None else _decode(kept)


@cache
def format_digest(schema: type[Output]) -> str:
    """SHA-256 of the schema as sent, hexadecimal."""
    return sha256_hex(canonical(response_format(schema)))


async def _all(calls: Sequence[Awaitable[Answer]]) -> list[Answer]:
    """Side by side; the first failure ends the others."""

    async def one(call: Awaitable[Answer]) -> Answer:
        return await call

    try:
        async with asyncio.TaskGroup() as tasks:
            made = [tasks.create_task(one(call)) for call in calls]
    except* EndpointError as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in made]


def _encode(calls: Sequence[Call]) -> bytes:
    return json.dumps(
        [
            [
                call.schema,
                call.asked,
                call.sample,
                call.prompt_digest,
                call.rejected,
                call.answer.model,
                call.answer.finish_reason,
                base64.b64encode(call.answer.raw).decode(),
                call.answer.usage.prompt_tokens,
                call.answer.usage.completion_tokens,
                call.answer.usage.provenance,
                call.answer.adapted,
            ]
            for call in calls
        ]
    ).encode()


def _decode(kept: bytes) -> list[Call] | None:
    """The calls, at least one; None for bytes that were not made by `_encode`."""
    try:
        return [
            Call(
                schema,
                asked,
                sample,
                digest,
                Answer(model, base64.b64decode(raw), finish, Usage(*usage), tuple(adapted)),
                rejected,
            )
            for schema, asked, sample, digest, rejected, model, finish, raw, *usage, adapted in json.loads(kept)
        ] or None
    except (ValueError, TypeError):
        return None
