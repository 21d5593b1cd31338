"""`python -m tests.bench.bare_loops PLAN ROLE`: a role that only moves messages, with aiokafka and nothing else.

It reads a topic, and once it has read `after` messages of a key it sends its own messages under that key. A batch's
sends are gathered and offsets are committed twice a second: what a careful loop costs that keeps no other promise.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

COMMIT_S = 0.5


@dataclass(frozen=True)
class Loop:
    """`sends`: (topic, value) of each message that is sent for a key."""

    reads: str
    after: int
    sends: tuple[tuple[str, bytes], ...]

    @property
    def group(self) -> str:
        return f"bare-{self.reads}"


def write_plan(path: Path, address: str, loops: Mapping[str, Loop]) -> None:
    """Role -> loop, for processes of this module."""
    roles = {
        role: asdict(loop) | {"sends": [(topic, b64encode(value).decode()) for topic, value in loop.sends]}
        for role, loop in loops.items()
    }
    path.write_text(json.dumps({"address": address, "roles": roles}))


def _read_plan(path: Path, role: str) -> tuple[str, Loop]:
    plan = json.loads(path.read_text())
    loop = plan["roles"][role]
    sends = tuple((topic, b64decode(value)) for topic, value in loop["sends"])
    return plan["address"], Loop(loop["reads"], loop["after"], sends)


async def run(address: str, loop: Loop) -> None:
    """Serve until the process is ended."""
    # the product's own client settings (streams.faust_app), where they bear on the cost
    producer: Any = AIOKafkaProducer(bootstrap_servers=address, linger_ms=20, acks="all")
    consumer: Any = AIOKafkaConsumer(
        loop.reads,
        bootstrap_servers=address,
        group_id=loop.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
    )
    await producer.start()
    await consumer.start()
    seen, committed_at = Counter[bytes](), time.monotonic()
    while True:
        sent = []
        for records in (await consumer.getmany(timeout_ms=200)).values():
            for record in records:
                seen[record.key] += 1
                if seen[record.key] == loop.after:
                    del seen[record.key]
                    sent += [await producer.send(topic, value, key=record.key) for topic, value in loop.sends]
        await asyncio.gather(*sent)
        if time.monotonic() - committed_at > COMMIT_S:
            await consumer.commit()
            committed_at = time.monotonic()


if __name__ == "__main__":
    asyncio.run(run(*_read_plan(Path(sys.argv[1]), sys.argv[2])))
