"""A system behind a URL, and what its failures are called."""

import asyncio
import shlex

import pytest
from aiohttp import web

from glassbox.replay.systems.http import HttpSystem, shown
from glassbox.replay.systems.port import InvocationFailed, shows_key
from tests.replay.systems.conftest import Serve

KEY = "sk-http-0123456789"


async def fails(url: str, **more: float) -> InvocationFailed:
    system = HttpSystem(url, "1", timeout_s=more.get("timeout_s", 5.0))
    with pytest.raises(InvocationFailed) as caught:
        await system.answer("secret question")
    await system.close()
    assert "secret question" not in caught.value.message
    return caught.value


async def test_a_question_is_posted_and_the_reply_read(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        asked = await request.json()
        answer = f"{asked['question']} {request.path_qs} {request.headers['Authorization']}"
        return web.json_response({"answer": answer, "retrieved": ["a"]})

    system = HttpSystem(await serve(handler) + "/rag/?lang=en", "7", api_key=KEY, timeout_s=5)
    made = await system.answer("Who?")
    await system.close()
    assert made.answer == f"Who? /rag/?lang=en Bearer {KEY}"
    assert KEY in system.secrets
    assert system.reference.version == "7"
    assert system.reference.parameters["url"].endswith("/rag/")


@pytest.mark.parametrize(
    ("status", "type_", "final"),
    [
        (429, "rate_limited", False),
        (500, "unavailable", False),
        (503, "unavailable", False),
        (307, "unavailable", True),
        (401, "unavailable", True),
        (404, "unavailable", True),
        (422, "refused", True),
    ],
)
async def test_a_status_has_its_type(serve: Serve, status: int, type_: str, final: bool) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=status, text="secret question", headers={"Retry-After": "2.5", "Location": "/x"})

    failed = await fails(await serve(handler))
    assert (failed.type, failed.final) == (type_, final)
    assert failed.retry_after == (2.5 if status in (429, 500, 503) else None)


async def test_a_reply_that_is_none_is_malformed(serve: Serve) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="<html>secret question</html>")

    assert (await fails(await serve(handler))).type == "malformed_output"


async def test_a_hanging_call_ends(serve: Serve) -> None:
    gone = asyncio.Event()

    async def handler(_: web.Request) -> web.Response:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return web.Response()

    assert (await fails(await serve(handler), timeout_s=0.1)).type == "timeout"
    await gone.wait()


async def test_nobody_there() -> None:
    assert (await fails("http://127.0.0.1:9")).type == "unavailable"


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert shown("https://user:pass@example.org:8443/ask?api-key=1#x") == "https://example.org:8443/ask"
    assert "passpass" in HttpSystem("https://user:passpass@example.org/", "1", timeout_s=1).secrets
    with pytest.raises(ValueError, match="exclude each other") as caught:
        HttpSystem("https://user:passpass@example.org/", "1", api_key=KEY, timeout_s=1)
    assert "passpass" not in str(caught.value)


def test_what_a_query_holds_is_kept_secret() -> None:
    url = "https://example.org/ask?api_key=op%2Fen&version=2024-02-01&code=0123456789abcdef"
    system = HttpSystem(url, "1", timeout_s=1)
    assert {"op/en", "op%2Fen", "0123456789abcdef"} <= system.secrets
    assert "2024-02-01" not in system.secrets, "a version may stand in an answer"
    assert system.reference.parameters == {"url": "https://example.org/ask"}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("rag --api-key=x", True),
        ("rag --token x", True),
        ("sh -c 'API_KEY=x python rag.py'", True),
        ("rag sk-abcdefgh", True),
        ("rag ghp_abcdefghij", True),
        ("sh -c 'rag --api-key $API_KEY'", False),
        ("rag --api-key-file key.txt --max-tokens=100 --max_tokens 9 --keywords=a --sort-key=name", False),
        ("python -m tokens.rag https://example.org:8443/v1 --tokenizer=bert task-abcdefghij", False),
    ],
)
def test_a_key_among_the_words_of_a_command(command: str, found: bool) -> None:
    assert shows_key(shlex.split(command)) is found
