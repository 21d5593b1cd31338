"""Traces of which more may come, in bounded memory. Nothing here waits or sends: the clock is a parameter."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from glassbox.gateway.callers import Caller
from glassbox.gateway.otlp.traces import Node, Spans, Whole, whole

Key = tuple[str, str]
"""Tenant (empty where there is none) and trace id."""

_REMEMBERED = 50_000
"""Traces that are known to be concluded."""


@dataclass(frozen=True)
class Patience:
    """Seconds. `settle`: how long a trace is waited for whose root is there, but perhaps not all the rest; `quiet`: one
    whose root is missing. Both since its newest span; `longest`: since its first, whatever comes."""

    settle: float = 10.0
    quiet: float = 120.0
    longest: float = 900.0

    def until(self, spans: Spans, first: float, newest: float) -> float:
        wait = self.quiet if whole(spans) is Whole.PART else self.settle
        return min(newest + wait, first + self.longest)


@dataclass
class HeldTrace:
    """A trace that is waited for. `caller`: who sent its newest spans."""

    caller: Caller
    spans: dict[str, Node] = field(default_factory=dict)
    size: int = 0
    first: float = 0.0
    until: float = math.inf


class Full(Exception):
    """There is no room; nothing was taken."""


class Holding:
    """`most`: bytes of all; one tenant has a quarter of it at most."""

    def __init__(self, most: int, patience: Patience) -> None:
        self._most, self._patience = most, patience
        self._held: dict[Key, HeldTrace] = {}
        self._by_tenant: dict[str, int] = {}
        self._concluded: OrderedDict[Key, None] = OrderedDict()
        self._due: list[tuple[float, int, Key]] = []
        self._order = count()
        self.size = 0

    def __len__(self) -> int:
        return len(self._held)

    def is_concluded(self, key: Key) -> bool:
        return key in self._concluded

    def with_held(self, key: Key, spans: Spans) -> dict[str, Node]:
        """These spans and those that are held of the trace; of one that came twice the first."""
        held = self._held.get(key)
        return {**spans, **held.spans} if held else dict(spans)

    def hold(self, traces: Mapping[Key, Spans], caller: Caller, now: float) -> None:
        """Keep the spans of these traces of one tenant, or none of them. Raises `Full`."""
        new = {key: self._new(key, spans) for key, spans in traces.items()}
        size = sum(node.size for spans in new.values() for node in spans.values())
        for key in traces:
            if self.size + size > self._most or self._by_tenant.get(key[0], 0) + size > self._most // 4:
                raise Full
        for key, spans in new.items():
            held = self._held.setdefault(key, HeldTrace(caller, first=now))
            held.caller = caller
            held.spans.update(spans)
            self._resize(key, sum(node.size for node in spans.values()))
            self._wait(key, held, self._patience.until(held.spans, held.first, now))

    def due(self, now: float) -> Iterator[tuple[Key, HeldTrace]]:
        """The traces that have been waited for long enough, each once. They stay until they are dropped."""
        while self._due and self._due[0][0] <= now:
            _, order, key = heapq.heappop(self._due)
            if (held := self._held.get(key)) is None:
                continue
            if held.until <= now:
                held.until = math.inf
                yield key, held
            elif held.until < math.inf:
                heapq.heappush(self._due, (held.until, order, key))

    def all(self) -> Iterable[tuple[Key, HeldTrace]]:
        return list(self._held.items())

    def again(self, key: Key, at: float) -> None:
        """A trace that was due is due once more, at `at`."""
        if (held := self._held.get(key)) is not None:
            self._wait(key, held, at)

    def next_due(self) -> float | None:
        """When to look next."""
        return self._due[0][0] if self._due else None

    def drop(self, key: Key, *, concluded: bool) -> None:
        """Forget a trace's spans. `concluded`: what else comes of it is late."""
        held = self._held.pop(key, None)
        if held is not None:
            self._by_tenant[key[0]] -= held.size
            self.size -= held.size
            if not self._by_tenant[key[0]]:
                del self._by_tenant[key[0]]
        if concluded:
            self._concluded[key] = None
            if len(self._concluded) > _REMEMBERED:
                self._concluded.popitem(last=False)

    def _new(self, key: Key, spans: Spans) -> dict[str, Node]:
        held = self._held.get(key)
        return {name: node for name, node in spans.items() if held is None or name not in held.spans}

    def _wait(self, key: Key, held: HeldTrace, until: float) -> None:
        if until < held.until:  # where it is later, the entry that stands is put back when it comes up
            heapq.heappush(self._due, (until, next(self._order), key))
        held.until = until

    def _resize(self, key: Key, size: int) -> None:
        self._held[key].size += size
        self._by_tenant[key[0]] = self._by_tenant.get(key[0], 0) + size
        self.size += size
