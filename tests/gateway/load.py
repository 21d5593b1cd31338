"""Producers that post as fast as they are answered, each on a connection of its own, and remember what was accepted."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from glassbox.cli.children import free_ports
from streams.admin import create_topics
from streams.clients import read_all
from streams.topics import REQUESTS
from tests.kafka import Kafka
from tests.pipeline import MODULES, Pipeline, request


@dataclass
class Load:
    """`accepted`: ids with a 202. `seconds`: of each 202. `answers`: how many of each status; 0 for none at all."""

    port: int
    accepted: set[str] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)

    async def run(self, producers: int, for_s: float) -> None:
        end = time.monotonic() + for_s
        await asyncio.gather(*(self._produce(n, end) for n in range(producers)))

    async def _produce(self, producer: int, end: float) -> None:
        number = 0
        while time.monotonic() < end:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    while time.monotonic() < end:
                        number += 1
                        await self._post(reader, writer, f"load-{producer}-{number}")
                finally:
                    writer.close()
                continue
            self.answers[0] += 1

    async def _post(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
        body = json.dumps(request(name)).encode()
        lines = ("POST /v1/evaluations HTTP/1.1", "Host: localhost", "Content-Type: application/json")
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        began = time.monotonic()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        status = int(answer[9:12])
        self.answers[status] += 1
        if status == 202:
            self.accepted.add(name)
            self.seconds.append(time.monotonic() - began)
        else:
            await asyncio.sleep(0.05)


@contextmanager
def gateway_on(kafka: Kafka, folder: Path) -> Iterator[tuple[Pipeline, int]]:
    """A gateway, and its port, with nothing behind it but the broker (and a catalogue, which it waits for)."""
    (port,) = free_ports(1)
    pipeline = Pipeline(folder, broker=kafka.broker)
    create_topics(kafka.broker)
    command = [sys.executable, *MODULES["real"]]
    try:
        pipeline.start_role("catalogue", command=command)
        pipeline.start_role("gateway", {"GLASSBOX_GATEWAY_PORT": str(port)}, command)
        for name in ("catalogue", "gateway"):
            pipeline.wait_ready(name)
        yield pipeline, port
    finally:
        pipeline.close()


def in_the_log(kafka: Kafka) -> set[str]:
    """The ids of all requests that stand on the topic."""
    return {(message.key() or b"").decode() for message in read_all(kafka.broker, REQUESTS)}
