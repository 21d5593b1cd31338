"""One schedule: the world that a seed makes, run until nothing is left to do."""

from __future__ import annotations

import random
from asyncio import Future
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ledger.evidence import EvidenceVault, owner
from ledger.port import StoreError
from streams.ports import Record, SendFailed, TooLarge
from streams.topics import CLOSED, REQUESTS, SCORECARDS, Topic
from tests.simulation import requests
from tests.simulation.ledger import SimLedger
from tests.simulation.log import Log, home
from tests.simulation.loop import Process, SimLoop, current
from tests.simulation.plan import Event, Plan
from tests.simulation.redriving import redrive
from tests.simulation.shortcuts import seed_secrets
from tests.simulation.store import SimStore

if TYPE_CHECKING:
    from tests.simulation.group import Group, Member

END_S = 40_000.0
"""Nothing may take longer than this, in virtual time."""
LARGEST = 4000
"""Bytes of a judge task; larger ones the broker refuses."""


class World:
    """Clockwork, network and hardware. Roles and invariants are put into it by `tests.simulation.schedule`."""

    def __init__(self, plan: Plan, trace: Callable[[str], None] | None = None) -> None:
        self.plan, self._trace = plan, trace
        self.random = random.Random(f"run {plan.seed}")
        random.seed(plan.seed)  # the product's jitter
        seed_secrets(plan.seed)
        self.loop = SimLoop(self._step)
        self.log = Log(plan.partitions, self.loop.time)
        self.policies = {name: policy for name, policy in requests.POLICIES.items() if name != requests.LATER}
        self.store = SimStore(self)
        self.vault = EvidenceVault(self.store)
        self.ledger = SimLedger(self, requests.DIGESTS)
        self.groups: dict[str, Group] = {}
        self.faults = Counter[str]()
        self.kills = Counter[str]()
        self.accuse: Callable[..., object] = self.note
        self.steps = 0
        self.erasing: set[str] = set()
        self.erased: set[str] = set()
        self.lost: set[str] = set()
        self._crashes = {int(event.at) for event in plan.events if event.kind == "crash"}
        self._touched = Counter[str]()
        self._by_touch: dict[tuple[str, int], list[Event]] = {}
        self._owners: dict[str, str] = {}
        self._cards = 0
        self._closings: dict[int, list[Event]] = {}
        self._processes: dict[Process, Member] = {}

    # time and chance

    def after(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        self.loop.world(delay, callback, *args)

    def answer(self, delay: float, future: Future[Any], result: Any) -> None:
        """Resolve what a process waits for, unless it no longer does."""
        self.after(delay, lambda: future.done() or future.set_result(result))

    def fail(self, delay: float, future: Future[Any], error: Exception) -> None:
        def tell() -> None:
            if not future.done():
                future.set_exception(error)
                future.exception()  # the dead never look

        self.after(delay, tell)

    def latency(self) -> float:
        """Seconds: short, with a slow tail."""
        r = self.random.random
        return 0.001 + 0.049 * r() if r() < 0.93 else 0.5 + 8.5 * r()

    def chance(self, odds: float) -> bool:
        return self.random.random() < odds

    def fault(self, kind: str, odds: float) -> bool:
        """Whether a fault of the plan happens now."""
        happens = kind in self.plan.odds and self.random.random() < odds
        if happens:
            self.faults[kind] += 1
        return happens

    def caller(self) -> Process:
        return current()

    def note(self, *words: object) -> None:
        if self._trace is not None:
            self._trace(f"{self.loop.time():10.3f} {self.steps:5d}  " + " ".join(map(str, words)))

    @property
    def tracing(self) -> bool:
        return self._trace is not None

    def judges(self) -> list[Group]:
        return [self.groups[kind] for kind in requests.KINDS if kind in self.groups]

    # steps and crashes

    def register(self, process: Process, member: Member) -> None:
        self._processes[process] = member

    def _step(self, process: Process) -> bool:
        self.steps += 1
        if self.steps in self._crashes and process in self._processes:
            self.faults["crash"] += 1
            self._processes[process].crash(f"at step {self.steps}")
            return True
        return False

    # the network

    async def send(
        self, topic: Topic, key: str | bytes | None, value: bytes | None, headers: Mapping[str, str], partition: int
    ) -> int:
        """At least once: may fail, may append twice, may be acknowledged late or never."""
        caller, answer = current(), self.loop.create_future()
        raw_key = key.encode() if isinstance(key, str) else key
        raw_headers = {name: text.encode() for name, text in headers.items()}
        if value is not None and len(value) > LARGEST and topic.name.startswith("glassbox.judge."):
            raise TooLarge("the message is too large")

        def arrive() -> None:
            if caller.alive or self.chance(0.5):
                record = self.log.append(topic.name, partition, raw_key, value, raw_headers)
                self.answer(self.latency(), answer, record.timestamp)
            else:
                self.note("lost on the wire:", topic.name, key)

        def arrive_again() -> None:
            self.log.append(topic.name, partition, raw_key, value, raw_headers)

        delay = self.latency()
        if topic is CLOSED and self.fault("slow_markers", 0.6):
            delay += self.random.uniform(0.5, 5)
        if self.fault("lost_sends", 0.02):
            self.note("send fails:", topic.name, key)
            if self.chance(0.5):
                self.after(delay, arrive_again)
            self.fail(1.0, answer, SendFailed("no acknowledgement"))
        else:
            self.after(delay, arrive)
            if self.fault("lost_acks", 0.1):
                self.after(delay + self.latency(), arrive_again)
            if self.fault("late_doubles", 0.25):
                self.after(delay + self.random.uniform(1, 30), arrive_again)
        sent_at: int = await answer
        return sent_at

    # the plan

    def begin(self) -> None:
        """Put the plan's events on the clock."""
        self.store.changed.append(self._touch_object)
        self.log.heard.append(self._heard)
        for event in self.plan.events:
            act = getattr(self, f"_at_{event.kind}", None)
            if event.kind == "crash_closing":
                self._closings.setdefault(event.what["card"], []).append(event)
            elif event.kind in ("erase", "lose"):
                self._by_touch.setdefault((event.what["id"], int(event.at)), []).append(event)
            elif act is not None:
                self.after(0.0 if event.kind in ("unregistered", "store_down") else event.at, act, event)

    def touch(self, name: str) -> None:
        """Something happened to this id: the chance for an erasure or a loss right behind it."""
        self._touched[name] += 1
        for event in self._by_touch.get((name, self._touched[name]), ()):
            if event.kind == "erase":
                self.after(event.what["delay"], self._at_erase_idle, event)
            else:
                self._lose(event)

    def _heard(self, record: Record) -> None:
        if record.topic != SCORECARDS.name:
            return
        for event in self._closings.pop(self._cards, ()):
            for member in self.groups["join"].members:
                self.faults["crash_closing"] += 1
                self.after(event.at, member.crash, "after a scorecard")
        self._cards += 1

    def _touch_object(self, what: str, name: str, data: bytes | None) -> None:
        mine = self._owners.get(name.split("/")[0])
        if mine is not None:
            self.note("store:", what, mine, name.partition("/")[2][:24])
            self.touch(mine)

    def _at_request(self, event: Event) -> None:
        name = event.what["id"]
        self._owners[owner(name)] = name
        partition = event.what["home"] % self.log.partitions
        value = requests.body(name, event.what["content"], event.what["special"])
        self.log.append(REQUESTS.name, partition, name.encode(), value, {})
        if self.fault("lost_acks", 0.1):
            again = (REQUESTS.name, partition, name.encode(), value, {})
            self.after(self.latency(), lambda: self.log.append(*again))

    def _at_policy(self, event: Event) -> None:
        self.note("POLICY changes")
        self.policies["current"] = self.policies["other"]

    def _at_mend(self, event: Event) -> None:
        self.note("POLICY", requests.LATER, "is configured")
        self.policies[requests.LATER] = requests.POLICIES[requests.LATER]

    def _at_redrive(self, event: Event) -> None:
        self.note("REDRIVE", "by an operator who is gone before the note" if event.what["dies"] else "")
        self.loop.start(Process("operator"), redrive(self, dies=event.what["dies"]))

    def _at_clock(self, event: Event) -> None:
        jump = round((event.what["pick"] - 0.3) * 10 ** (2 + 4.5 * event.what["size"]))
        self.faults["clock"] += 1
        self.log.ahead_ms = max(-3_600_000, self.log.ahead_ms + jump)
        self.note("CLOCK of the broker jumps by", jump, "ms")
        for group in self.groups.values():
            for member in group.members:
                member.process.skew += jump / 1000

    def _at_unregistered(self, event: Event) -> None:
        self.ledger.register_at = event.at

    def _at_store_down(self, event: Event) -> None:
        self.faults["store_down"] += 1
        self.store.down.append((event.at, event.at + event.what["size"]))

    def _at_rebalance(self, event: Event) -> None:
        self._group(event).rebalance()

    def _at_zombie(self, event: Event) -> None:
        group = self._group(event)
        self.faults["zombie"] += 1
        member = group.members[int(event.what["size"] * len(group.members))]
        group.leave_behind(member, 0.1 + 25 * event.what["size"])

    def _at_freeze(self, event: Event) -> None:
        members = [member for group in self.groups.values() for member in group.members]
        self.faults["freeze"] += 1
        members[int(event.what["pick"] * len(members))].freeze((8, 30, 120)[int(event.what["size"] * 3)])

    def _at_outage(self, event: Event) -> None:
        self.note("OUTAGE for", event.what["size"], "s")
        self.faults["outage"] += 1
        groups = [group for group in self.groups.values() if self.chance(0.4)] or [self._group(event)]
        for group in groups:
            for member in group.members:
                member.crash("outage", down_s=event.what["size"])

    def _group(self, event: Event) -> Group:
        groups = list(self.groups.values())
        return groups[int(event.what["pick"] * len(groups))]

    def _at_erase_idle(self, event: Event) -> None:
        name = event.what["id"]
        self.faults["erase"] += 1
        self._owners[owner(name)] = name
        self.erasing.add(name)
        self.note("ERASE", name)
        self.loop.start(Process("operator"), self._erase(name))

    async def _erase(self, name: str) -> None:
        while True:  # the operator repeats an erasure that did not report
            try:
                await self.vault.erase(name, "2026-01-01T00:00:00.000Z")
            except StoreError:
                await self._sleep(1.0)
            else:
                break
        self.note("ERASED", name)
        self.erasing.discard(name)
        self.erased.add(name)

    async def _sleep(self, seconds: float) -> None:
        future = self.loop.create_future()
        self.answer(seconds, future, None)
        await future

    def _lose(self, event: Event) -> None:
        name = event.what["id"]
        folder = owner(name)
        objects = sorted(each for each in self.store.objects if each.startswith(folder))
        if objects and name not in self.erasing | self.erased:
            self.faults["lose"] += 1
            self.lost.add(name)
            self.store.remove("LOST by the store", objects[int(event.what["pick"] * len(objects))])

    def partition(self, key: str | bytes | None) -> int:
        raw = key.encode() if isinstance(key, str) else key or b""
        return home(raw, self.log.partitions)
