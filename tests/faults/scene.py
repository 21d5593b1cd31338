"""Where the faults of the soak happen, and what a fault is."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from glassbox.cli.errors import AGAIN
from streams.topics import REQUESTS
from tests.faults.endpoint import Endpoint
from tests.faults.gates import STALLED_S, Gate, Gates, Position
from tests.faults.test_network import Wire
from tests.kafka import Kafka
from tests.pipeline import until

BURST = 20
"""Requests at a time, at most."""


@dataclass
class Scene:
    """What the faults meet. `events`: those of one evaluation, `model`, in the order in which the join read them.

    `refused`: where messages stand that must each become a dead letter; `late`: where requests stand that may be
    refused at first and come to a record in the end; `erased`: ids whose end may be a dead letter instead.
    """

    gates: Gates
    gate: Gate
    kafka: Kafka
    endpoint: Endpoint
    wire: Wire | None
    model: str
    events: list[bytes]
    refused: set[Position] = field(default_factory=set)
    late: set[Position] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    @property
    def random(self) -> random.Random:
        return self.gate.random

    def ask(self, wish: str = "", count: int = BURST, **changes: Any) -> list[str]:
        """Up to `count` requests, of which some ask a model."""
        policy = self.random.choice(["gate", "gate", "gate", "asking"])
        names = self.gate.publish(self.random.randint(1, count), wish, **{"policy": policy, **changes})
        self.asked += names
        return names

    def refuse(self, messages: Iterable[tuple[Any, bytes | None]], topics: Iterable[Any] = (REQUESTS,)) -> None:
        """Send what must become a dead letter."""
        messages = list(messages)
        for topic in topics:
            self.refused |= self.gate.send(topic, messages)

    def a_role(self) -> str:
        return self.random.choice(list(self.gates.pipeline.roles))

    def every(self, role: str) -> list[str]:
        return [name for name in self.gates.pipeline.roles if name.split("-")[0] == role]

    def a_broker(self) -> int:
        return self.random.randint(1, self.kafka.broker.replication)

    def start(self, *names: str, **environment: str) -> None:
        """With other variables than before where some are given."""
        for name in names:
            more = {**self.gates.clocks, **environment} if environment else None
            self.gates.pipeline.start_role(name, more)

    def leave(self, *names: str) -> None:
        """These end in good order, or as well as they can in the middle of another fault."""
        children = [self.gates.pipeline.roles[name] for name in names]
        for child in children:
            child.send(signal.SIGTERM)
        until(lambda: not any(child.running for child in children), STALLED_S, f"{names} leave")
        for child in children:
            assert child.exit_code in (0, AGAIN, -signal.SIGTERM), f"{child.name}: {child.last_line()}"

    def redrive(self) -> int:
        """Send again what was refused for its contract; returns how many were sent."""
        done = self.gates.pipeline.command(
            *("dead-letters", "redrive", "--reason", "contract", "--source", REQUESTS.name, "--json"), environment={}
        )
        assert done.returncode in (0, 1), done.stderr
        return sum(json.loads(line)["result"] == "redriven" for line in done.stdout.splitlines())


@dataclass(frozen=True)
class Fault:
    """`weight`: how often it comes in a round of all. `touches`: what it needs for itself."""

    name: str
    weight: int
    touches: frozenset[str]
    happens: Callable[[Scene], AbstractContextManager[None]]


FAULTS: list[Fault] = []

Happens = Callable[[Scene], Iterator[None]]


def fault(*touches: str, weight: int = 1) -> Callable[[Happens], Fault]:
    """Adds what happens to `FAULTS`: up to its `yield`, from where it lasts until it goes on."""

    def add(happens: Happens) -> Fault:
        made = Fault(happens.__name__.replace("_", " "), weight, frozenset(touches), contextmanager(happens))
        FAULTS.append(made)
        return made

    return add
