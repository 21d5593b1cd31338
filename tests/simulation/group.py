"""Consumer groups and their members: fetching, commits, rebalances, zombies, crashes, restarts."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from streams.acks import LOST_S, Continuity, OrderedAcks, Skipped
from streams.ports import Record
from streams.reading import REVOKE_GRACE_S, Consumer, InFlight, Reader
from streams.topics import Topic
from tests.simulation.log import Offsets, Where
from tests.simulation.loop import Process
from tests.simulation.world import World

SESSION_S = 6.0
"""How long the coordinator waits for a silent member."""
_BUFFER = 6
_JOIN_S = 8.0

MakeConsumer = Callable[["Member"], Consumer]


class Group:
    """The members of a role and what the coordinator knows of them. Rebalances are eager: everybody gives up
    everything, as Faust does. `committed` is told of every commit that counts."""

    def __init__(
        self,
        world: World,
        role: str,
        topics: Sequence[Topic],
        size: int,
        make: MakeConsumer,
        committed: Callable[[Group, Where, int, int], None],
    ) -> None:
        self.world, self.role, self.make, self._committed = world, role, make, committed
        self.topics = [topic.name for topic in topics]
        self.offsets = Offsets()
        self.where = [(topic, partition) for topic in self.topics for partition in range(world.log.partitions)]
        self._waiting: set[Member] | None = None
        self._again = False
        self._behind: set[Member] = set()
        self.members = [Member(self, n) for n in range(size)]
        for name in self.topics:
            world.log.readers[name] = self._heard

    def _heard(self) -> None:
        for member in self.members:
            if member.owned and member.process.alive:
                member.fetch_soon()

    def commit(self, generation: int, positions: Mapping[Where, int]) -> bool:
        before = {where: self.offsets.committed.get(where, 0) for where in positions}
        if not self.offsets.commit(generation, positions):
            self.world.note(f"commit of {self.role} is fenced")
            return False
        for where, position in positions.items():
            if position != before[where]:
                self.world.note("commit", self.role, where[1], position)
                self._committed(self, where, before[where], position)
        return True

    def leave_behind(self, member: Member, seconds: float) -> None:
        """A rebalance of which one member hears too late: a zombie."""
        if member.process.alive and not member.process.frozen:
            self.world.note("ZOMBIE", member, f"for {seconds:.1f} s")
            self._behind.add(member)
            self.world.after(seconds, self.catch_up, member)
            self.rebalance()

    def catch_up(self, member: Member) -> None:
        """A zombie hears that it is out, unless it cannot hear."""
        if not member.process.frozen:
            self._behind.discard(member)
            if member.generation != self.offsets.generation:
                self.rebalance()

    def forgive(self, member: Member) -> None:
        """A member that is dead is no zombie."""
        self._behind.discard(member)

    def expel(self, member: Member) -> None:
        """The session of a member has expired."""
        self._behind.add(member)
        self.rebalance()

    def begin(self) -> None:
        """The first assignment: nobody has anything to give up."""
        self._complete(self._waiting)

    def rebalance(self) -> None:
        if self._waiting is not None:
            self._again = True
            return
        self.world.note("REBALANCE", self.role)
        self._waiting = {member for member in self.members if self._takes_part(member)}
        self.world.after(_JOIN_S, self._complete, self._waiting)
        for member in self.members:
            if member in self._waiting:
                member.revoke()
        if not self._waiting:
            self._complete(self._waiting)

    def _takes_part(self, member: Member) -> bool:
        return member.process.alive and not member.process.frozen and member not in self._behind

    def gave_up(self, member: Member) -> None:
        """A member has given up its partitions, or died."""
        waiting = self._waiting
        if waiting is not None and member in waiting:
            waiting.discard(member)
            if not waiting:
                self._complete(waiting)

    def _complete(self, waiting: set[Member] | None) -> None:
        if self._waiting is not waiting:
            return  # it was over before the time was
        self._waiting = None
        if waiting:  # too slow to give up: out, and will hear of it
            self._behind |= waiting
            for member in self.members:
                if member in waiting:
                    self.world.after(SESSION_S, self.catch_up, member)
        self.offsets.generation += 1
        ready = [member for member in self.members if self._takes_part(member) and member.has_given_up]
        if ready:
            share: dict[Member, list[Where]] = {member: [] for member in ready}
            for where in self.where:
                share[self.world.random.choice(ready)].append(where)
            for member in ready:
                member.assign(self.offsets.generation, share[member])
        if self._again:
            self._again = False
            self.world.after(0.05, self.rebalance)


class Member:
    """One process of a role, over all its lives."""

    def __init__(self, group: Group, number: int) -> None:
        self.group, self.world, self.number = group, group.world, number
        self._lives = self._falls = 0
        self._up_at = self._arrives = 0.0
        self.start()

    def __repr__(self) -> str:
        return f"{self.group.role}#{self.number}.{self._lives}"

    def start(self) -> None:
        """A new life: everything in memory is new."""
        self._lives += 1
        self.world.note("start", self)
        self.process = Process(repr(self))
        self.world.register(self.process, self)
        self.acks, self.in_flight = OrderedAcks(), InFlight()
        self.in_flight.failed = self.world.loop.create_future()
        self.in_flight.failed.add_done_callback(
            lambda failed: self.crash(f"exits by itself: {failed.result()!r}"), context=self.process.context
        )
        self.generation = 0
        self.owned: list[Where] = []
        self._fetched: dict[Where, int] = {}
        self._began: dict[Where, int] = {}
        self._continuity = Continuity()
        self._buffers: dict[str, deque[tuple[Record, int]]] = {topic: deque() for topic in self.group.topics}
        self._more = {topic: asyncio.Event() for topic in self.group.topics}
        self._committing = self._fetching = self._ticking = self._giving_up = False
        self.recover: Callable[[list[Where]], object] = lambda owned: None
        self.consumer = self.process.context.run(self.group.make, self)
        self.reader = Reader(self.consumer, self.acks, self.in_flight)
        for topic in self.group.topics:
            self.world.loop.start(self.process, self._agent(self._buffers[topic], self._more[topic]))

    # reading

    async def _agent(self, buffer: deque[tuple[Record, int]], more: asyncio.Event) -> None:
        while True:
            while not buffer:
                more.clear()
                await more.wait()
            record, generation = buffer.popleft()
            self.fetch_soon()
            where = record.topic, record.partition
            if self._may_skip(record) and self.world.fault("skips", 0.1):
                self.world.note("SKIPPED", self, *where, record.offset)
                self.world.after(LOST_S, self._look_for_lost, self.process)
                continue
            if self._continuity.first_missing(where, record.offset, generation, self._began.get(where)) is not None:
                self.in_flight.fail(Skipped(f"{where} {record.offset}"))
                return
            if not await self.reader.read(record, generation, self._acknowledged):
                return
            self._tick_soon()

    def _may_skip(self, record: Record) -> bool:
        """A group without a position begins anywhere: nobody could notice."""
        where = record.topic, record.partition
        return where in self.group.offsets.committed or self._began.get(where, record.offset) < record.offset

    def _look_for_lost(self, process: Process, looks: int = 0) -> None:
        """As the ticker does, until two looks in a row, with nothing on its way, have told."""
        if process is not self.process or not process.alive:
            return
        quiet = not any(self._buffers.values())
        read = {where: self._fetched[where] for where in self.owned} if quiet else {}
        now = self.world.loop.time()
        if (lost := self._continuity.never_came(read, self.generation, self._began, now)) is not None:
            self.in_flight.fail(Skipped(f"{lost}"))
        elif not quiet or looks == 0:
            self.world.after(LOST_S + 0.25, self._look_for_lost, process, looks + 1 if quiet else 0)

    def fetch_soon(self) -> None:
        if not self._fetching and self._behind():
            self._fetching = True
            self.world.after(self.world.latency(), self._fetch, self.process)

    def _behind(self) -> bool:
        read, fetched = self.world.log.read, self._fetched
        return any(fetched[where] < len(read(where)) and len(self._buffers[where[0]]) < _BUFFER for where in self.owned)

    def _fetch(self, process: Process) -> None:
        if process is not self.process or not process.alive:
            return
        self._fetching = False
        for where in self.owned:
            records, buffer = self.world.log.read(where), self._buffers[where[0]]
            while self._fetched[where] < len(records) and len(buffer) < _BUFFER:
                buffer.append((records[self._fetched[where]], self.generation))
                self._fetched[where] += 1
        for topic, more in self._more.items():
            if self._buffers[topic] and not more.is_set():
                self.world.loop.call_soon(more.set, context=process.context)

    # the timer

    def _tick_soon(self) -> None:
        if self.group.role == "join" and not self._ticking and self.acks.open_tokens():
            self._ticking = True
            self._spawn(self._ticks())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Code of the process that no rebalance waits for; its failure ends the process."""
        task = self.world.loop.start(self.process, work)
        task.add_done_callback(self._ended, context=self.process.context)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.in_flight.fail(error)

    async def _ticks(self) -> None:
        while self.acks.open_tokens():
            await asyncio.sleep(self.world.random.choice((0.25, 1.0, 4.0)))
            if self.acks.assigned:
                await self.consumer.tick()
        self._ticking = False

    # commits

    def _acknowledged(self) -> None:
        if not self._committing:
            self._committing = True
            self.world.loop.call_later(self.world.random.uniform(0.05, 0.6), self._commit, context=self.process.context)

    def _commit(self) -> None:
        self._committing = False
        self._send_commit(self.acks.positions(), lambda kept: None)

    def _send_commit(self, positions: Mapping[Where, int], then: Callable[[bool], object]) -> None:
        """A commit on its way survives its sender."""
        generation, process, world = self.generation, self.process, self.world

        def arrive() -> None:
            kept = self.group.commit(generation, positions)
            if process.alive:
                world.after(0.002, then, kept)
            if not kept and process is self.process:
                world.after(1.0, self.group.catch_up, self)

        if positions:
            self.to_coordinator(arrive)
        else:
            then(True)

    def to_coordinator(self, arrive: Callable[[], object]) -> None:
        """Requests of one member arrive in the order of sending."""
        loop = self.world.loop
        self._arrives = max(self._arrives, loop.time() + self.world.latency())
        loop.world_at(self._arrives, arrive)

    # assignments

    @property
    def has_given_up(self) -> bool:
        return not self.owned and not self._giving_up

    def revoke(self) -> None:
        """Once at a time: a member that is still giving up as the next rebalance begins takes part in it then."""
        if not self._giving_up:
            self._giving_up = True
            self._spawn(self._give_up())

    async def _give_up(self) -> None:
        positions, _ = await self.reader.settle(REVOKE_GRACE_S)
        done = self.world.loop.create_future()
        self._send_commit(positions, lambda kept: done.done() or done.set_result(kept))
        await done
        self.reader.end()
        self.owned, self._giving_up = [], False
        self.group.gave_up(self)

    def assign(self, generation: int, owned: list[Where]) -> None:
        """What the coordinator says; the consumer's own buffers still hold what was fetched before."""
        self.generation, self.owned = generation, owned
        self._fetched = {where: self.group.offsets.committed.get(where, 0) for where in owned}
        self._began = dict(self._fetched)
        if owned:
            self.world.note("assign", self, [where[1] for where in owned], "from", list(self._fetched.values()))
        self.world.loop.call_soon(self._assigned, generation, context=self.process.context)

    def _assigned(self, generation: int) -> None:
        if generation == self.generation:
            self.acks.assign(generation)
            self.recover(self.owned)
            self.fetch_soon()

    # trouble

    def crash(self, why: str, down_s: float = 0.0) -> None:
        """SIGKILL; the orchestrator starts it again after a while, more slowly where it keeps dying."""
        world, r = self.world, self.world.random
        self._up_at = max(self._up_at, world.loop.time() + down_s)
        if not self.process.alive:
            return
        world.note("CRASH", self, why)
        self.process.alive = False
        self.process.parked.clear()
        self.group.forgive(self)
        self.owned, self.generation = [], 0
        self._falls += 1
        back = r.choice((0.5, 3, 10)) * r.uniform(0.5, 1.5) if world.chance(0.9) else r.uniform(20, 100)
        if self._falls > 6:
            back = min(120.0, 5 * 2.0 ** (self._falls - 6))
        world.after(SESSION_S, self.group.rebalance)
        world.after(max(back, self._up_at - world.loop.time()), self._back)
        world.after(0.0, self.group.gave_up, self)

    def _back(self) -> None:
        left = self._up_at - self.world.loop.time()
        if left > 0:
            self.world.after(left, self._back)
            return
        self.start()
        self.world.after(0.05, self.group.rebalance)

    def freeze(self, seconds: float) -> None:
        """SIGSTOP; the session expires, others take over, and it wakes as a zombie."""
        process = self.process
        if not process.alive or process.frozen:
            return
        self.world.note("SIGSTOP", self, f"for {seconds:g} s")
        process.frozen = True
        self.world.after(SESSION_S, self._expired, process)
        self.world.after(seconds, functools.partial(self._thaw, process))

    def _expired(self, process: Process) -> None:
        if process.frozen and process.alive:
            self.group.expel(self)

    def _thaw(self, process: Process) -> None:
        if process.alive:
            self.world.note("SIGCONT", self)
            self.world.loop.thaw(process)
            self.world.after(self.world.random.uniform(0.01, 4), self.group.catch_up, self)
