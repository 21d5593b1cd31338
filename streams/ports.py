"""What the protocol code needs of its transport: records in, messages out, nothing of Faust.

The handlers of the roles are written against these, so that a simulator can drive them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streams.topics import Topic


@dataclass(frozen=True, slots=True)
class Record:
    """One message of the log. `timestamp`: the broker's append time (on the embedded broker the producer's), ms."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Mapping[str, bytes] = field(default_factory=dict)


class TooLarge(Exception):
    """The broker will never take this message (DESIGN §4.1 rule 4: a permanent produce error)."""


class SendFailed(Exception):
    """A message was not acknowledged: the process must exit without acknowledging what it was working on."""


class Outbox(Protocol):
    async def send(
        self,
        topic: Topic,
        key: str | bytes | None,
        value: bytes | None,
        *,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> int:
        """Send and wait until the broker has acknowledged; returns the message's timestamp in milliseconds.

        `key`: an evaluation id, or a foreign message's own bytes; without `partition` it decides where the message
        goes. Raises `TooLarge` or `SendFailed`.
        """
        ...
