"""Endpoints for the judges that ask a model, over real HTTP on the loopback: the lexical model, and one that answers
what a test tells it to."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from judges.lexical.server import LexicalServer
from judges.llm import Endpoint, EndpointClient


@dataclass
class Script:
    """`steps`: what to do with each call in turn, the last one for all that follow: a (status, headers, body), or
    "hang", or "reset", or a function of the request's JSON that makes one of these."""

    steps: list[Any] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0
    delay_s: float = 0.0
    url: str = ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append({"path": request.path, "authorization": request.headers.get("authorization"), **body})
        step = self.steps[min(len(self.requests), len(self.steps)) - 1]
        step = step(body) if callable(step) else step
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await asyncio.sleep(self.delay_s)
            if step == "hang":
                await asyncio.Event().wait()
            if step == "reset":
                assert request.transport is not None
                request.transport.abort()
            status, headers, content = step if step != "reset" else (200, {}, "")
            return web.Response(status=status, headers=headers, body=content, content_type="application/json")
        finally:
            self.in_flight -= 1


def says(content: str, finish: str = "stop", **message: Any) -> tuple[int, dict[str, str], str]:
    """A chat completion with this content."""
    choice = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 11, "completion_tokens": 3}
    return 200, {}, json.dumps({"model": "served-1", "choices": [choice], "usage": usage})


def batcher_threads() -> set[threading.Thread]:
    """Those that run a model's batches: a model that many tests share keeps its own."""
    return {thread for thread in threading.enumerate() if thread.name == "batcher"}


@pytest.fixture
def no_thread_left() -> Callable[[], bool]:
    """Whether all batcher threads that the test began have ended."""
    before = batcher_threads()
    return lambda: batcher_threads() <= before


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    made = Script()
    app = web.Application()
    app.router.add_post("/v1/{path:.*}", made.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield made
    await runner.cleanup()


@pytest.fixture
async def connect(script: Script) -> AsyncIterator[Callable[..., EndpointClient]]:
    """Makes clients of the scripted endpoint; keyword arguments go to `Endpoint`."""
    made: list[EndpointClient] = []

    def make(**settings: Any) -> EndpointClient:
        endpoint = Endpoint(
            **{"base_url": script.url, "model": "asked-1", "embedding_model": "vectors-1", "api_key": "k", **settings}
        )
        made.append(EndpointClient(endpoint, jitter=lambda: 1.0))
        return made[-1]

    yield make
    for client in made:
        await client.close()


@pytest.fixture
async def lexical() -> AsyncIterator[LexicalServer]:
    async with LexicalServer() as server:
        yield server


@pytest.fixture
async def client(lexical: LexicalServer) -> AsyncIterator[EndpointClient]:
    """A client of the lexical model that does not wait before it retries longer than a test can."""
    endpoint = Endpoint(lexical.url, CHAT_MODEL, EMBEDDING_MODEL, "", call_limit_s=1.0)
    made = EndpointClient(endpoint, jitter=lambda: 1.0)
    yield made
    await made.close()
