"""The product's roles on the simulated transport: what `glassbox worker ROLE` wires, with nothing of Faust."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from glassbox.contract.verdict import KINDS, Failed, Scored
from judges.port import Case, Judgement
from ledger.documents import StoredDocuments
from ledger.port import StoreUnavailable
from streams.acks import Token
from streams.admission import Admission
from streams.clock import monotonic
from streams.committer import CommitQueue, Committer
from streams.intake import Intake
from streams.joiner import MARKER_TTL_MS, Join, Marker
from streams.lanes import request_lanes, task_lanes
from streams.ports import Record, SendFailed
from streams.reading import Consumer, JoinConsumer
from streams.shares import Shares
from streams.starts import Note
from streams.topics import BULK_REQUESTS, CLOSED, REQUESTS, RESULTS, SCORECARDS, Topic, judge_topic
from streams.worker import Worker
from tests.simulation import requests
from tests.simulation.group import Member
from tests.simulation.log import Where
from tests.simulation.world import World

POOL = 2
RESERVE = 3
T = TypeVar("T")
_ID_KEY = b"k" * 32

TOPICS: Mapping[str, tuple[Topic, ...]] = {
    "intake": (REQUESTS, BULK_REQUESTS),
    **{kind: (judge_topic(kind), judge_topic(kind, bulk=True)) for kind in requests.KINDS},
    "join": (RESULTS,),
    "committer": (SCORECARDS,),
}
"""Role -> the topics that it reads, the bulk lane's last."""
RATE = 0.02
"""Requests a second within a tenant's share: few enough that most plans have requests in both lanes."""


@dataclass
class SimOutbox:
    """`ports.Outbox` of one process."""

    world: World

    async def send(
        self,
        topic: Topic,
        key: str | bytes | None,
        value: bytes | None,
        *,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> int:
        where = self.world.partition(key) if partition is None else partition
        return await self.world.send(topic, key, value, headers or {}, where)


@dataclass
class SimClosedIds:
    """`joiner.ClosedIds` as the Faust table behaves: in memory at once, in the changelog when acknowledged, rebuilt
    from it at assignment."""

    world: World
    outbox: SimOutbox
    _index: dict[int, dict[str, Marker]] = field(default_factory=dict)

    def recover(self, owned: list[Where]) -> None:
        self._index = {}
        for _, partition in owned:
            index = self._index[partition] = {}
            for record in self.world.log.read((CLOSED.name, partition)):
                assert record.key is not None
                name = record.key.decode()
                index.pop(name, None)
                if record.value is not None:
                    index[name] = Marker(*json.loads(record.value))

    def get(self, evaluation_id: str) -> Marker | None:
        return self._index.get(self.world.partition(evaluation_id), {}).get(evaluation_id)

    async def mark(self, evaluation_id: str, partition: int, marker: Marker) -> None:
        self._index.setdefault(partition, {})[evaluation_id] = marker
        value = json.dumps([marker.request_digest, marker.appended_at, marker.offset]).encode()
        await self.outbox.send(CLOSED, evaluation_id, value, partition=partition)

    def forget(self, evaluation_id: str, partition: int) -> None:
        self._index.get(partition, {}).pop(evaluation_id, None)
        self.world.faults["closed ids forgotten"] += 1
        self.world.log.append(CLOSED.name, partition, evaluation_id.encode(), None, {})

    def oldest(self, partition: int, count: int) -> list[tuple[str, Marker]]:
        return [item for item, _ in zip(self._index.get(partition, {}).items(), range(count), strict=False)]


@dataclass(frozen=True)
class SimJoin(JoinConsumer):
    """The join, whose closed ids must go when their time is over."""

    world: World

    async def on_record(self, record: Record, token: Token) -> None:
        closed, where = self.join.closed, (record.topic, record.partition)
        committed = self.join.acks.positions().get(where, 0)
        over = [
            name
            for name, marker in closed.oldest(record.partition, 3)
            if record.timestamp - marker.appended_at > MARKER_TTL_MS and marker.offset < committed
        ]
        await super().on_record(record, token)
        kept = {name for name, _ in closed.oldest(record.partition, 3)}
        if not kept.isdisjoint(over):
            self.world.accuse("closed ids are never forgotten", *over)


@dataclass(frozen=True)
class SimNotes:
    """`starts.Notes` in the metadata of the group's commits: a member of an older generation is fenced."""

    member: Member

    async def read(self, where: Where) -> Note:
        return Note.decode(await self._ask(lambda: self.member.group.offsets.notes.get(where, "")))

    async def write(self, where: Where, note: Note) -> None:
        offsets, generation = self.member.group.offsets, self.member.generation

        def keep() -> bool:
            if generation == offsets.generation:
                offsets.notes[where] = note.encode()
                self.member.world.note("note", self.member, where[1], note)
            return generation == offsets.generation

        if not await self._ask(keep):
            raise SendFailed("a commit of an older generation")

    async def _ask(self, operation: Callable[[], T]) -> T:
        """To the coordinator and back, after what was sent before."""
        world, answer = self.member.world, asyncio.get_running_loop().create_future()
        self.member.to_coordinator(lambda: world.answer(0.002, answer, operation()))
        result: T = await answer
        return result


@dataclass(frozen=True)
class SimBacklog:
    """`admission.Backlog` straight from the coordinator and the log."""

    world: World

    async def lags(self, before: int, *, bulk: bool) -> bool:
        for group in self.world.judges():
            topic = judge_topic(group.role, bulk=bulk).name
            for where in group.where:
                if where[0] != topic:
                    continue
                left = self.world.log.read(where)[group.offsets.committed.get(where, 0) :]
                if left and left[0].timestamp < before:
                    self.world.faults["admission waits"] += 1
                    return True
        return False


class SimDocuments(StoredDocuments):
    """The product's reader of documents on a bucket that is away now and then."""

    def __init__(self, world: World) -> None:
        super().__init__(requests.RULES)
        self._world = world

    def _objects(self, location: str) -> Any:
        return self

    async def get(self, path: str, at_most: int | None = None) -> bytes | None:
        if self._world.fault("documents_down", 0.4):
            await asyncio.sleep(0.1)
            raise StoreUnavailable("down")
        await asyncio.sleep(self._world.latency())
        return requests.DOCUMENTS.get(path)


@dataclass(frozen=True)
class SimJudge:
    """A judge that takes its time, and another score each time; a poisoned answer kills its process."""

    world: World
    member: Member
    kind: str

    async def answer(self, case: Case) -> Judgement:
        world = self.world
        took = world.random.uniform(5, 28) if world.fault("slow_judge", 0.25) else world.random.uniform(0.02, 0.3)
        left = case.deadline - monotonic()
        await asyncio.sleep(min(took, max(left, 0.0)))
        if self.kind == "grounding" and "poison" in (case.input.answer or ""):
            world.faults["poison"] += 1
            world.kills[case.evaluation_id] += 1
            self.member.crash(f"killed by {case.evaluation_id}")
            await asyncio.sleep(0)  # nothing runs after this
        for document in case.input.source_documents or ():
            world.faults["documents read"] += 1
            if document.text.encode() != requests.DOCUMENTS["here"]:
                world.accuse("a judge read another document", case.evaluation_id)
        cause = "timeout" if took > left else "malformed_output" if world.fault("failing_judge", 0.3) else None
        if cause:
            return Judgement(tuple(Failed(part=part, cause=cause) for part in case.settings), {"cause": cause})
        score = world.random.randrange(10**6) / 10**6
        return Judgement(tuple(Scored.of(part, score) for part in case.settings), {"score": f"{score:.6f}"})


def make_consumer(member: Member) -> Consumer:
    """The consumer of a member's role, as a process that has just started makes it."""
    world, acks, in_flight, role = member.world, member.acks, member.in_flight, member.group.role
    outbox = SimOutbox(world)
    if role == "intake":
        intake = Intake(
            outbox,
            world.vault,
            world.policies,
            "current",
            requests.NEEDS,
            _ID_KEY,
            Admission(SimBacklog(world)),
            Shares(RATE, 1, world.log.partitions),
            requests.RULES,
        )
        return request_lanes(intake.handle, acks, in_flight, POOL)
    if role == "join":
        closed = SimClosedIds(world, outbox)
        member.recover = closed.recover
        return SimJoin(Join(outbox, closed, acks, in_flight.spawn), world)
    if role == "committer":
        committer = Committer(world.ledger, world.vault, outbox, acks.release, lambda trouble: None, _not_logged)
        return CommitQueue(committer, in_flight.spawn)
    assert role in KINDS
    worker = Worker(role, SimJudge(world, member, role).answer, outbox, world.vault, SimDocuments(world))
    return task_lanes(role, worker.handle, worker.give_up, acks, in_flight, POOL, SimNotes(member), RESERVE)


async def _not_logged(digest: str) -> None:
    """The policies of a simulation are never on its log."""
