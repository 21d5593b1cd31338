"""What a real connection gets that is slow, endless, idle or no HTTP at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glassbox.gateway.limits import Limits
from glassbox.gateway.server import Server
from tests.gateway.parts import ASKED, Broker, door

LIMITS = Limits(body_s=0.5, header_s=0.5, connections=20, in_flight_requests=4, stream_s=60)


class Listening:
    def __init__(self, port: int, broker: Broker, server: Server) -> None:
        self.port, self.broker, self.server = port, broker, server

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def said(self, *parts: bytes, pause_s: float = 0.0) -> str:
        """What a connection is answered that sends these parts, until it is closed."""
        reader, writer = await self.connect()
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause_s)
            return (await asyncio.wait_for(reader.read(), 20)).decode()
        except ConnectionResetError:
            return "reset"
        finally:
            writer.close()


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[Listening]:
    with door(tmp_path, limits=LIMITS) as made:
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        server = Server(made.app, "127.0.0.1", 0, LIMITS, port.set_result)
        serving = asyncio.create_task(server._serve())
        try:
            yield Listening(await port, made.broker, server)
        finally:
            server.should_exit = True
            await serving


def head(length: int | None, path: str = "/v1/evaluations", kind: str = "application/json") -> bytes:
    size = f"Content-Length: {length}" if length is not None else "Transfer-Encoding: chunked"
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{size}\r\n\r\n".encode()


async def test_a_slow_body_is_not_waited_for(listening: Listening) -> None:
    said = await listening.said(head(500), b'{"query"')
    assert said.startswith("HTTP/1.1 408 ")
    assert "urn:glassbox:problem:slow_body" in said
    assert "connection: close" in said.lower()
    said = await listening.said(head(None, "/v1/evaluations:batch", "application/x-ndjson"), b"1\r\n{\r\n")
    assert "urn:glassbox:problem:slow_body" in said


async def test_a_huge_body_is_refused_before_it_is_read(listening: Listening) -> None:
    said = await listening.said(head(10**12))
    assert said.startswith("HTTP/1.1 413 ")


async def test_what_says_nothing_is_hung_up_on(listening: Listening) -> None:
    assert await listening.said() == ""
    assert await listening.said(b"POST /v1/eval") == ""
    slow = [bytes([byte]) for byte in b"GET / HTTP/1.1\r\nX-Slow: "]
    assert await listening.said(*slow, pause_s=0.1) in ("", "reset")


async def test_what_is_no_http_is_told_so(listening: Listening) -> None:
    said = await listening.said(b"\x16\x03\x01 hello\r\n\r\n")
    assert said.startswith("HTTP/1.1 400 ")
    assert "application/problem+json" in said
    assert "nosniff" in said


async def test_connections_are_counted(listening: Listening) -> None:
    kept = [await listening.connect() for _ in range(LIMITS.connections)]
    reader, writer = await listening.connect()
    try:
        writer.write(head(2) + b"{}")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), 10)
    finally:
        for _, each in [*kept, (reader, writer)]:
            each.close()


async def test_requests_are_counted_before_they_are_read(listening: Listening) -> None:
    kept = [await listening.connect() for _ in range(LIMITS.in_flight_requests)]
    for _, writer in kept:
        writer.write(head(500))
        await writer.drain()
    await asyncio.sleep(0.1)
    said = await listening.said(head(500))
    assert said.startswith("HTTP/1.1 429 ")
    assert "retry-after: 1" in said.lower()
    for _, writer in kept:
        writer.close()


async def test_a_batch_is_answered_while_it_still_comes(listening: Listening) -> None:
    reader, writer = await listening.connect()
    try:
        writer.write(head(None, "/v1/evaluations:batch", "application/x-ndjson"))
        for name in ("first", "second"):
            line = json.dumps({**ASKED, "evaluation_id": name}).encode() + b"\n"
            writer.write(b"%x\r\n%s\r\n" % (len(line), line))
            await writer.drain()
            found = b""
            while f'"evaluation_id":"{name}"'.encode() not in found:
                found += await asyncio.wait_for(reader.read(1000), 10)
            assert b'"status":202' in found
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    finally:
        writer.close()
    assert len(listening.broker.sent) == 2


async def test_a_follower_does_not_keep_the_gateway_from_stopping(tmp_path: Path) -> None:
    stopping = False
    with door(tmp_path, limits=LIMITS, stopping=lambda: stopping) as made:
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        server = Server(made.app, "127.0.0.1", 0, LIMITS, port.set_result)
        serving = asyncio.create_task(server._serve())
        reader, writer = await asyncio.open_connection("127.0.0.1", await port)
        writer.write(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"retry: "), 10)
        stopping = server.should_exit = True
        await asyncio.wait_for(serving, 20)
        writer.close()
