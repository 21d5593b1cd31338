"""World state of one namespace: keys with the height of their last write, and every write before it."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import NamedTuple


class Height(NamedTuple):
    """Where a value was written: the block's number and the transaction's place in it."""

    block: int
    transaction: int


class Write(NamedTuple):
    """One write of a key; `value` is None where the key was deleted."""

    height: Height
    value: bytes | None


class Entry(NamedTuple):
    """A key as it stands at some block."""

    key: str
    height: Height
    value: bytes


class VersionedState:
    """Append-only history of each key, so that a simulation reads one block's state while later ones commit.

    `at`: number of the last block that is seen; None sees all.
    """

    def __init__(self) -> None:
        self._writes: dict[str, list[Write]] = {}
        self._keys: list[str] = []

    def put(self, key: str, height: Height, value: bytes | None) -> None:
        if key not in self._writes:
            bisect.insort(self._keys, key)
            self._writes[key] = []
        self._writes[key].append(Write(height, value))

    def get(self, key: str, at: int | None = None) -> Entry | None:
        for height, value in reversed(self._writes.get(key, [])):
            if at is None or height.block <= at:
                return None if value is None else Entry(key, height, value)
        return None

    def scan(self, start: str, end: str, at: int | None = None) -> Iterator[Entry]:
        """Keys from `start` up to but without `end`, in byte order; an empty `end` has no limit."""
        # Code points of strings sort as their UTF-8 bytes do, which is the order of LevelDB.
        last = bisect.bisect_left(self._keys, end) if end else len(self._keys)
        for key in self._keys[bisect.bisect_left(self._keys, start) : last]:
            if (entry := self.get(key, at)) is not None:
                yield entry

    def history(self, key: str, at: int | None = None) -> list[Write]:
        """Every write of a key, the newest first."""
        return [w for w in reversed(self._writes.get(key, [])) if at is None or w.height.block <= at]
