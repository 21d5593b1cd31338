"""One pipeline on Apache Kafka that the fault gates share, and what each of them asserts in the end.

    with gates.asking(seed) as gate:
        gate.publish(100)
        gates.pipeline.kill("join")
        gate.settle()

`settle` waits until every request has come to its end and nothing is left to do, then compares what the join made,
the receipts and the ledger: one record or one dead letter for each request, the same bytes wherever it stands.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from glassbox.cli.children import stop_all
from glassbox.cli.errors import AGAIN
from glassbox.cli.publish import Publisher
from glassbox.contract.record import record_digest
from glassbox.settings import Settings
from ledger.merkle_log import MerkleLog
from streams.access import access
from streams.clients import Broker, BrokerError, common, reader
from streams.redrive import note_of
from streams.topics import DEAD_LETTERS, RECEIPTS, SCORECARDS, Topic
from tests.faults import KILLED_BY_TASK
from tests.pipeline import Pipeline, get, request, until

POLICIES = """
[policy.gate]  # two kinds of workers: what is tested is not what they say
deadline_s = 300
judges.contextual_precision.enabled = false
judges.semantic_faithfulness.enabled = false

[policy.quick]
deadline_s = 4
judges.contextual_precision.enabled = false
judges.semantic_faithfulness.enabled = false

[policy.asking]  # one kind, which asks a model
deadline_s = 60
judges.contextual_precision.enabled = false
judges.structural_fidelity.enabled = false

[policy.late]  # of which an intake may not know yet
judges.contextual_precision.enabled = false
judges.semantic_faithfulness.enabled = false
"""
ROLES = ("intake", "terminology", "structure", "join", "committer")
NEW_LEADER_S = 30.0
STALLED_S = 120.0
"""Where nothing has moved for so long, nothing will. How long things take together says nothing on a busy machine."""

Position = tuple[str, str, str]
"""Topic, partition and offset of a message, as the headers of its dead letter have them."""


def seed_of_run() -> int:
    """`SEED` of the environment, or another one each time; printed by whoever uses it."""
    return int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))


@contextmanager
def small_disk(folder: Path, size_mb: int = 256) -> Iterator[None]:
    """The folder, made, as a disk of that size where this user may mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=700", "gates", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def full(folder: Path) -> Iterator[Callable[[], None]]:
    """No byte is free on the folder's disk. Gives what fills it again: others write meanwhile, and free some."""
    filler = folder / "filler"
    try:
        with filler.open("wb", buffering=0) as file:

            def fill() -> None:
                for step in (1024 * 1024, 4096):
                    with suppress(OSError):
                        while True:
                            file.write(bytes(step))

            fill()
            yield fill
    finally:
        filler.unlink(missing_ok=True)


@dataclass
class Seen:
    """What came out, by evaluation id; dead letters by the position of their source."""

    cards: dict[str, set[str]] = field(default_factory=dict)
    receipts: dict[str, set[str]] = field(default_factory=dict)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: Counter[str] = field(default_factory=Counter)
    letters: dict[Position, dict[str, str]] = field(default_factory=dict)
    values: Counter[bytes | None] = field(default_factory=Counter)

    def take(self, taken: Any) -> None:
        topic, value = taken.topic(), taken.value()
        if topic == DEAD_LETTERS.name:
            headers = {name: text.decode() for name, text in taken.headers() or ()}
            if note_of(headers) is not None:
                return
            where = headers["source_topic"], headers["source_partition"], headers["source_offset"]
            if where not in self.letters:
                self.values[value] += 1
            self.letters[where] = headers
            return
        try:
            message = json.loads(value or b"")
            record = message["record"]
            name, digest, kind = record["evaluation_id"], record_digest(record), record["kind"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # a gate's own poison
        if kind != "scorecard":
            return
        if topic == SCORECARDS.name:
            self.cards.setdefault(name, set()).add(digest)
        else:
            assert digest == message["record_digest"]
            self.receipts.setdefault(name, set()).add(digest)
            self.records.setdefault(name, record)
            self.results[message["result"]] += 1


class Gates:
    """The pipeline of `ROLES` with judges that never say the same twice, in a folder. `hold`: while this file is
    there, judgements wait that a query asks to hold."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.folder, self.data, self.hold = folder, folder / "data", folder / "hold"
        (folder / "glassbox.toml").write_text(POLICIES)
        environment = {
            "GLASSBOX_CONFIG": str(folder / "glassbox.toml"),
            "GLASSBOX_POLICY": "gate",
            "FAULT_HOLD": str(self.hold),
        }
        self.pipeline = Pipeline(folder, "faulty", environment, broker)
        self.clocks: Mapping[str, str] = {}
        self._ended_badly: set[str] = set()
        self.revived: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()
        self._groups: dict[str, Consumer] = {}
        self._asker = self._client("glassbox-gates")

    def start(self, roles: Iterable[str] = ROLES) -> None:
        """Start these and wait until the policies are on the ledger."""
        self.pipeline.start(roles)
        until(lambda: not self.left(), 60, "the policies are on the ledger")

    def close(self) -> None:
        self.hold.unlink(missing_ok=True)
        for child in self.pipeline.roles.values():
            child.send(signal.SIGCONT)
        for consumer in (*self._groups.values(), self._asker):
            consumer.close()
        self.pipeline.close()

    @contextmanager
    def asking(self, name: str, seed: int) -> Iterator[Gate]:
        """`name`: the beginning of the ids of a gate; no two gates have the same."""
        print(f"\n{name}: SEED={seed}")  # noqa: T201 — SEED of the environment repeats it
        began = time.monotonic()
        consumer = reader(self.pipeline.broker, [SCORECARDS, RECEIPTS, DEAD_LETTERS])
        gate = Gate(self, consumer, name, random.Random(seed))
        try:
            yield gate
        finally:
            self.hold.unlink(missing_ok=True)
            consumer.close()
        print(f"{name}: {time.monotonic() - began:.1f} s")  # noqa: T201

    def mend(self) -> None:
        """After a gate that failed: the roles as they were, so that the next one says something."""
        self._ended_badly.update(ROLES)
        for name, child in list(self.pipeline.roles.items()):
            child.send(signal.SIGKILL)
            child.wait()
            if name not in ROLES:
                del self.pipeline.roles[name]
        for name in ROLES:
            self.pipeline.start_role(name, {})
        for name in ROLES:
            self.pipeline.wait_ready(name)
        until(lambda: not self.left(), 120, "what was left is done")

    def in_flight(self, role: str) -> float:
        """Messages that a role works on."""
        return self.pipeline.metric(role, "glassbox_unacknowledged_messages")

    def assigned(self, role: str) -> float:
        """Partitions that a role has."""
        return self.pipeline.metric(role, "glassbox_assigned_partitions")

    def kill(self, *names: str) -> None:
        """SIGKILL."""
        for name in names:
            self.pipeline.kill(name)
        self._ended_badly.update(names)

    def hold_up(self, *kinds: str) -> None:
        """From now on judgements wait whose answer says `hold:KIND`. A worker after one that ended badly is first
        replaced: it would do what that one may have started one by one, and the first would hold up all."""
        bad = self._ended_badly.intersection(kinds)
        if bad:
            self.stop(*bad)
            for kind in bad:
                self._forget_marks(kind)
            self._start_anew(*bad, environment={})
        self.hold.touch()

    def stop(self, *names: str) -> None:
        """Have these end in good order, all at once."""
        children = [self.pipeline.roles[name] for name in names]
        stop_all(children, 20)
        assert [child.exit_code for child in children] == [0] * len(children)
        self._ended_badly.difference_update(names)

    def retire(self, *names: str) -> None:
        """As `stop`, for good."""
        self.stop(*names)
        for name in names:
            del self.pipeline.roles[name]

    def replace(self, *names: str, environment: Mapping[str, str]) -> None:
        """End these in good order and start them with other variables."""
        self.stop(*names)
        self._start_anew(*names, environment=environment)

    def _start_anew(self, *names: str, environment: Mapping[str, str]) -> None:
        for name in names:
            self.pipeline.start_role(name, environment)
        for name in names:
            self.pipeline.wait_ready(name)

    def revive(self) -> None:
        """Start again what stopped because it could not go on; whatever else ends is a fault of the product."""
        for name, child in self.pipeline.roles.items():
            code = child.exit_code
            if code in (AGAIN, KILLED_BY_TASK):
                (self.killed if code == KILLED_BY_TASK else self.revived)[name] += 1
                print(f"{name} is started again: {child.last_line()}")  # noqa: T201
                self.pipeline.start_role(name)
            fine = code in (None, AGAIN, KILLED_BY_TASK, 0, -signal.SIGKILL)
            assert fine, f"{name}: {code}: {child.log.read_text()[-2000:]}"

    def backlog(self) -> dict[str, int]:
        """Group -> messages of its topic that it has not committed; those that have none are left out."""
        behind = {}
        for role, needs in access().items():
            if role in {name.split("-")[0] for name in self.pipeline.roles}:
                behind[role] = sum(self._behind(needs.group, topic) for topic in needs.works_on)
        return {role: count for role, count in behind.items() if count}

    def left(self) -> dict[str, int]:
        """As `backlog`, also while a broker is away, which is something left."""
        try:
            return self.backlog()
        except KafkaException as error:
            return {str(error): 1}

    def _client(self, group: str) -> Consumer:
        return Consumer({**common(self.pipeline.broker), "group.id": group, "enable.auto.commit": False})

    def _behind(self, group: str, topic: Topic) -> int:
        if group not in self._groups:
            self._groups[group] = self._client(group)
        consumer = self._groups[group]
        every = [TopicPartition(topic.name, number) for number in range(self.pipeline.broker.partitions)]
        behind = 0
        for at in consumer.committed(every, timeout=10):
            low, high = consumer.get_watermark_offsets(at, timeout=10, cached=False)
            behind += high - max(at.offset, low)
        return behind

    def _forget_marks(self, role: str) -> None:
        """What a dead worker of this role may have started stands beside its committed offsets; nobody reads now."""
        group, topic = access()[role].group, access()[role].reads[0]
        self._behind(group, topic)
        consumer = self._groups[group]
        every = [TopicPartition(topic.name, number) for number in range(self.pipeline.broker.partitions)]
        at = [TopicPartition(each.topic, each.partition, each.offset) for each in consumer.committed(every, timeout=10)]
        consumer.commit(offsets=[each for each in at if each.offset >= 0], asynchronous=False)

    def end(self, where: TopicPartition) -> int:
        """The offset after a partition's last message; asked by a client that reads nothing, since one that does may
        wait for its answer for ever."""
        last = time.monotonic() + NEW_LEADER_S
        while True:
            try:
                return self._asker.get_watermark_offsets(where, timeout=10, cached=False)[1]
            except KafkaException:
                if time.monotonic() > last:
                    raise

    def audited(self, names: set[str]) -> tuple[dict[str, str], int]:
        """Evaluation id -> digest of the record on the ledger, and how many records stand there, after an audit of the
        whole log."""

        async def look() -> tuple[dict[str, str], int]:
            log = MerkleLog.reader(self.data / "ledger")
            try:
                audit = await log.audit([Settings(data_dir=self.data).signing_key().verifier])
                assert audit.problem is None
                standing = {name: await log.read(name) for name in names}
                return {name: record_digest(record) for name, record in standing.items() if record}, audit.tree_size
            finally:
                await log.close()

        return asyncio.run(look())


class Gate:
    """One gate's requests and what came of them. `random`: of the gate's seed."""

    def __init__(self, gates: Gates, consumer: Consumer, name: str, generator: random.Random) -> None:
        self.gates, self.random, self._consumer, self.name = gates, generator, consumer, name
        self.names: list[str] = []
        self.seen = Seen()
        self.settled = False
        self._next = {(at.topic, at.partition): gates.end(at) for at in consumer.assignment()}

    @cached_property
    def _size(self) -> int:
        return self.gates.audited(set())[1]

    def fresh(self, count: int) -> list[str]:
        """New ids, whose records `settle` will ask for."""
        assert self._size
        made = [f"{self.name}-{len(self.names) + n}" for n in range(count)]
        self.names += made
        return made

    def publish(self, count: int, wish: str = "", **changes: Any) -> list[str]:
        """Send requests that are to end in a record each; returns their ids. `wish`: for tests.faults.role."""
        names = self.fresh(count)
        self.ask(names, wish, **changes)
        return names

    def ask(self, names: list[str], wish: str = "", **changes: Any) -> None:
        """Send requests under these ids; once more, as a producer does, where the broker does not acknowledge."""
        answer = f"Ada Lovelace wrote the first program in 1843. {wish}"
        requests = [request(name, answer=answer, **changes) for name in names]
        try:
            self.gates.pipeline.publish(requests)
        except BrokerError:
            self.gates.pipeline.publish(requests)

    def send(self, topic: Topic, messages: Iterable[tuple[str | None, bytes | None]]) -> set[Position]:
        """Send (key, value) to any topic; returns where they stand."""
        stand: set[Position] = set()
        with Publisher(self.gates.pipeline.broker) as publisher:
            for key, value in messages:
                publisher.send(
                    *(topic, key.encode() if key is not None else None, value),
                    lambda partition, offset: stand.add((topic.name, str(partition), str(offset))),
                )
        return stand

    def read(self, enough: Callable[[Seen], bool], stalled_s: float = STALLED_S) -> Seen:
        """Read on until a condition holds; fails when nothing has come for `stalled_s` seconds."""
        last = time.monotonic()
        while not enough(self.seen):
            assert time.monotonic() < last + stalled_s, f"{self.missing()} of {len(self.names)}; {self.state()}"
            self.gates.revive()
            for taken in self._consumer.consume(500, 0.1):
                if taken.error() is None:
                    last = time.monotonic()
                    self._next[str(taken.topic()), taken.partition() or 0] = (taken.offset() or 0) + 1
                    self.seen.take(taken)
        return self.seen

    def answered(self, count: int) -> None:
        """Wait until so many of the requests have a receipt."""
        self.read(lambda seen: len(seen.receipts.keys() & set(self.names)) >= count)

    def missing(self) -> list[str]:
        return [name for name in self.names if name not in self.seen.receipts][:5]

    def state(self) -> str:
        """What the roles say, for a gate that fails."""
        roles = self.gates.pipeline.roles
        ready = {name: get(self.gates.pipeline.ports[name], "/ready")[1].strip() for name in roles}
        return f"{ready}, not committed: {self.gates.left()}"

    def settle(self, letters: int = 0) -> Seen:
        """Every id has one record, every one of `letters` messages one dead letter, and nothing is left to do."""
        mine = set(self.names)
        seen = self.at_rest(lambda seen: seen.receipts.keys() >= mine and len(seen.letters) >= letters)
        assert len(seen.letters) == letters, list(seen.letters.values())
        self.have_one_record(mine)
        self.settled = True
        return seen

    def at_rest(self, enough: Callable[[Seen], bool], stalled_s: float = STALLED_S) -> Seen:
        """Read on until a condition holds and nothing is left to do."""
        self.read(enough, stalled_s)
        last, left = time.monotonic(), self.gates.left()
        while left:
            assert time.monotonic() < last + stalled_s, f"something is left to do: {self.state()}"
            self.gates.revive()
            time.sleep(0.2)
            now = self.gates.left()
            if now != left:
                last, left = time.monotonic(), now
        return self.read(lambda _: self._at_end(), stalled_s)

    def have_one_record(self, names: set[str]) -> None:
        """Each of these has one record, the same bytes wherever it stands, and nobody else has any."""
        seen = self.seen
        assert {name: len(seen.receipts[name]) for name in names} == dict.fromkeys(names, 1)
        assert not seen.receipts.keys() - names, "records of nobody's request"
        assert {name: seen.cards[name] for name in names} == {name: seen.receipts[name] for name in names}
        standing, size = self.gates.audited(names)
        assert {name: {digest} for name, digest in standing.items()} == {name: seen.receipts[name] for name in names}
        assert size == self._size + len(names), "each request has one record on the ledger"
        joins = [name for name in self.gates.pipeline.roles if name.split("-")[0] == "join"]
        for name in joins:
            if self.gates.pipeline.roles[name].running:
                assert self.gates.pipeline.metric(name, "glassbox_open_windows") == 0

    def _at_end(self) -> bool:
        return all(offset >= self.gates.end(TopicPartition(*where)) for where, offset in self._next.items())
