"""`python -m tests.faults.role ROLE`: a role as in production, until a gate asks for a fault.

No two answers of a judge are the same, and none takes as long as another: whoever judges twice would be found out by
two records that differ. What the environment may ask for:

- `FAULT_HOLD`: a file; while it is there, a judgement waits whose answer says `hold:KIND`. One whose answer says
  `kill:KIND` ends the process, always.
- `FAULT_CLOCK`: a file with seconds by which the wall clock of this process is wrong; they may change at any time.
- `FAULT_NEWER`: the role is of a later minor version: each of its messages has fields that this one does not know.
- `FAULT_DIES`: `before TOPIC N` or `after TOPIC N`: SIGKILL right before the role sends its Nth message to a topic, or
  right after the broker has acknowledged it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NoReturn

import tests.faults.wrong_clock  # noqa: F401  # isort: skip — before any module takes what it changes
import streams.faust_app
from glassbox.cli.errors import UNABLE, say
from glassbox.cli.worker import RoleProcess, exit_code
from glassbox.contract.verdict import Method, Scored
from glassbox.settings import Settings
from judges.port import NEEDS, Case, Judge, Judgement
from streams.clients import BrokerError
from streams.topics import DEAD_LETTERS, Topic
from tests.faults import KILLED_BY_TASK
from tests.streams.events import newer

METHOD = Method(name="random", family="rules", library="tests", version="1")
SLOWEST_S = 0.02


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL was survived")


class Moody:
    """A judge that likes whatever it reads, each time differently."""

    def __init__(self, kind: str, hold: Path | None) -> None:
        self.kind, self.needs, self._hold = kind, NEEDS[kind], hold

    async def judge(self, case: Case) -> Judgement:
        wish = case.input.answer or ""
        if f"kill:{self.kind}" in wish:
            os._exit(KILLED_BY_TASK)
        while f"hold:{self.kind}" in wish and self._hold is not None and self._hold.exists():
            await asyncio.sleep(0.05)
        await asyncio.sleep(random.uniform(0, SLOWEST_S))
        verdicts = (Scored.of(part, round(random.uniform(0.9, 1), 6), method=METHOD) for part in case.settings)
        return Judgement(tuple(verdicts), {})

    async def close(self) -> None:
        pass


class FaultyRole(RoleProcess):
    async def judge(self, resources: AsyncExitStack) -> Judge:
        hold = os.environ.get("FAULT_HOLD")
        return Moody(self.role, Path(hold) if hold else None)


class FaultyOutbox(streams.faust_app.FaustOutbox):
    """Dies around the Nth message to a topic, or sends what a later version would."""

    _sent = 0

    async def send(self, topic: Topic, key: Any, value: bytes | None, **named: Any) -> int:
        if "FAULT_NEWER" in os.environ and topic is not DEAD_LETTERS:
            value = json.dumps(newer(json.loads(value or b""))).encode()
        when, name, count = os.environ.get("FAULT_DIES", "never - 0").split()
        if name != topic.name:
            return await super().send(topic, key, value, **named)
        self._sent += 1
        last = self._sent == int(count)
        if last and when == "before":
            die()
        sent_at = await super().send(topic, key, value, **named)
        if last:
            die()
        return sent_at


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    if {"FAULT_DIES", "FAULT_NEWER"} & os.environ.keys():
        streams.faust_app.FaustOutbox = FaultyOutbox  # type: ignore[misc]
    try:
        sys.exit(exit_code(FaultyRole(sys.argv[1], Settings.load()).run()))
    except BrokerError as error:  # as the command does
        say(str(error))
        sys.exit(UNABLE)
