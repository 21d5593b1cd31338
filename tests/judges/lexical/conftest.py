import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from judges.lexical import CHAT_MODEL
from judges.lexical.server import LexicalServer

Reply = tuple[int, Any]


@pytest.fixture
async def server() -> AsyncIterator[LexicalServer]:
    async with LexicalServer() as running:
        yield running


@pytest.fixture
async def post(server: LexicalServer) -> AsyncIterator[Callable[..., Awaitable[Reply]]]:
    """Sends a body (JSON, or bytes as they are) to a path below /v1; gives status and parsed body."""
    async with aiohttp.ClientSession() as session:

        async def send(path: str, body: Any) -> Reply:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            async with session.post(f"{server.url}/{path}", data=data) as response:
                return response.status, json.loads(await response.read())

        yield send


def chat(schema: str | None, prompt: str, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"model": CHAT_MODEL, "messages": [{"role": "user", "content": prompt}], **more}
    if schema is not None:
        form = {"type": "json_schema", "json_schema": {"name": schema, "strict": True, "schema": {}}}
        body = {"response_format": form, **body}
    return body
