from __future__ import annotations

from typing import Any

from streams.dead_letters import Reason, bury
from streams.ports import Record, TooLarge
from streams.topics import DEAD_LETTERS, RESULTS, Topic
from tests.streams.doubles import MemoryOutbox


class Narrow(MemoryOutbox):
    """Has room for headers or for a large value, not for both."""

    async def send(self, topic: Topic, key: str | bytes | None, value: bytes | None, **more: Any) -> int:
        if value is not None and len(value) > 100:
            raise TooLarge("the message is too large")
        return await super().send(topic, key, value, **more)


async def test_what_is_as_large_as_a_dead_letter_may_be_leaves_its_content_behind() -> None:
    outbox = Narrow()
    for key in (b"e1", None):
        await bury(outbox, Record(RESULTS.name, 3, 7, key, b"x" * 200, 0), Reason("bad_result"))
    for letter in outbox.on(DEAD_LETTERS):
        assert (letter.key, letter.value) == (b"glassbox.results/3/7", None)
        assert letter.headers["reason"] == "bad_result"
