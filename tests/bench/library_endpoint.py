"""The lexical model behind an endpoint that also understands what Ragas' and DeepEval's own runners send, so that
both sides of a comparison ask the same model. Run as a program it prints its base URL and serves until it is ended.

It counts calls, prompt tokens (four characters each, the schema included, as providers bill it) and calls in flight;
`GET /stats` gives and clears the counts, `POST /latency` sets the seconds added to each call.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import json
import re
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from judges.lexical.answers import answer
from judges.lexical.model import embed

_TITLES = ("StatementGeneratorOutput", "NLIStatementOutput", "ResponseRelevanceOutput", "AnswerRelevanceOutput")
_DEEPEVAL = re.compile(
    r"\nInput:\n(.*?)\n\nExpected output:\n(.*)\n\nRetrieval Context[^\n]*:\n(\[.*\])\s*\n\nJSON:", re.DOTALL
)


def said(schema: str, prompt: str) -> dict[str, Any]:
    """What the lexical model answers to our prompts, and to those of the libraries."""
    if schema == "Verdicts":
        query, _expected, passages = max(_DEEPEVAL.finditer(prompt), key=lambda found: found.start()).groups()
        data = json.dumps({"query": query, "passages": ast.literal_eval(passages)})
        verdicts = answer("PassageVerdicts", f"INPUT\n{data}")["verdicts"]
        return {"verdicts": [{"verdict": v["verdict"], "reason": v["reason"]} for v in verdicts]}
    if schema == "ContextualPrecisionScoreReason":
        return {"reason": "lexical: see the verdicts"}
    return answer("AnswerRelevanceOutput" if schema == "ResponseRelevanceOutput" else schema, prompt)


def text_of(content: Any) -> str:
    """A message's content, given whole or in parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def schema_of(body: dict[str, Any]) -> str:
    """By name where the request names it, else the last title in its instructions."""
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        return str(form["json_schema"]["name"])
    if body.get("tools"):
        return str(body["tools"][0]["function"]["name"])
    text = "".join(text_of(message["content"]) for message in body["messages"])
    return re.findall(rf'"title":\s*"({"|".join(_TITLES)})"', text)[-1]


class Endpoint:
    """`url` once it serves."""

    def __init__(self) -> None:
        self.latency_s, self.in_flight = 0.0, 0
        self.stats: Counter[str] = Counter()
        self.url = ""

    async def serve(self) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/embeddings", self._embeddings),
                web.get("/stats", self._stats),
                web.post("/latency", self._latency),
            ]
        )
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    @asynccontextmanager
    async def _taking_its_time(self) -> AsyncIterator[None]:
        """A call takes the latency, its computing included, as with a model on a machine of its own."""
        self.in_flight += 1
        self.stats["peak"] = max(self.stats["peak"], self.in_flight)
        until = time.monotonic() + self.latency_s
        try:
            yield
            await asyncio.sleep(until - time.monotonic())
        finally:
            self.in_flight -= 1

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.stats["calls"] += 1
        sent = [text_of(message["content"]) for message in body["messages"]]
        extra = [json.dumps(body[key]) for key in ("response_format", "tools") if body.get(key)]
        tokens = sum(map(len, (*sent, *extra))) // 4
        self.stats["prompt_tokens"] += tokens
        prompt = next(message["content"] for message in reversed(body["messages"]) if message["role"] == "user")
        async with self._taking_its_time():
            content = json.dumps(said(schema_of(body), text_of(prompt)))
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if body.get("tools"):
            function = {"name": schema_of(body), "arguments": content}
            message |= {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
        usage = {"prompt_tokens": tokens, "completion_tokens": len(content) // 4}
        return web.json_response(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [
                    {"index": n, "message": message, "finish_reason": "stop", "logprobs": None}
                    for n in range(body.get("n") or 1)
                ],
                "usage": {**usage, "total_tokens": sum(usage.values())},
            }
        )

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.stats["embedding_calls"] += 1
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        async with self._taking_its_time():
            rows: list[Any] = [list(embed(text)) for text in texts]
        if body.get("encoding_format") == "base64":
            rows = [base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() for row in rows]
        data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "model": body["model"], "data": data, "usage": usage})

    async def _stats(self, _: web.Request) -> web.Response:
        counted, self.stats = self.stats, Counter()
        return web.json_response(dict(counted))

    async def _latency(self, request: web.Request) -> web.Response:
        self.latency_s = float(await request.text())
        return web.Response()


async def main() -> None:
    endpoint = Endpoint()
    await endpoint.serve()
    print(endpoint.url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
