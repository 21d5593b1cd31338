"""`python -m tests.faults.soak`: every fault of the gates, mixed at random on three brokers for `MINUTES` minutes.

`SEED` chooses the faults, their order and their lengths. In the end everything is mended, and what the gates assert
must hold of all requests together: one record or one dead letter each, the same bytes wherever it stands, nothing
left to do. A fault that this machine does not allow (another namespace, a disk of its own) is left out
and named.
"""

# ruff: noqa: T201 — it reports what it did

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from glassbox.cli.children import free_ports
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from judges.lexical.faults import Faults
from judges.lexical.server import LexicalServer
from streams.clients import read_all
from streams.topics import RESULTS
from tests.faults.gates import ROLES, Gate, Gates, full, seed_of_run, small_disk
from tests.faults.test_clocks import JUMPS
from tests.faults.test_messages import POISON, WORKED, doubled
from tests.faults.test_network import Wire
from tests.kafka import Kafka, lacking
from tests.pipeline import MODULES

BURST = 30
"""Requests at a time, at most."""
LONGEST_S = 9.0
"""How long a fault lasts, at most: longer than a session of the broker."""
SETTLE_S = 300.0


@contextmanager
def endpoint() -> Iterator[LexicalServer]:
    """A model endpoint in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = LexicalServer(port=free_ports(1)[0])
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Soak:
    """Each fault is a method that lets it happen, keeps it for a while and mends it, while requests go on."""

    def __init__(self, gates: Gates, gate: Gate, kafka: Kafka, server: LexicalServer, wire: Wire | None) -> None:
        self.gates, self.gate, self.kafka, self.server, self.wire = gates, gate, kafka, server, wire
        self.random, self.pipeline = gate.random, gates.pipeline
        self.poisoned = 0
        self.done: Counter[str] = Counter()
        self.faults: list[Callable[[], None]] = [
            *(self.kills, self.puts_to_sleep, self.dies_on_the_way, self.scales, self.everything_down),
            *(self.restarts_a_broker, self.kills_a_broker, self.pauses_a_broker),
            *(self.poisons, self.doubles, self.repeats_old_results, self.a_deadline_passes),
            *(self.locks_the_ledger, self.an_endpoint_in_trouble, self.a_clock_jumps),
        ]
        if os.path.ismount(gates.data):
            self.faults.append(self.fills_the_disk)
        if wire is not None:
            self.faults.append(self.cuts_the_network)

    def run(self, minutes: float) -> None:
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            fault = self.random.choice(self.faults)
            self.done[fault.__name__] += 1
            self.asks()
            fault()
            self.asks()
            self.waits(1.0)

    def asks(self, wish: str = "") -> None:
        policy = self.random.choice(["gate", "gate", "gate", "asking"])
        self.gate.publish(self.random.randint(1, BURST), wish, policy=policy)

    def waits(self, longest_s: float = LONGEST_S) -> None:
        """Let time pass, up to so many seconds; what stopped is started again, as in production."""
        end = time.monotonic() + self.random.uniform(0, longest_s)
        self.gate.read(lambda _: time.monotonic() > end, longest_s + 60)

    def role(self) -> str:
        return self.random.choice(list(self.pipeline.roles))

    def kills(self) -> None:
        name = self.role()
        self.gates.kill(name)
        self.asks()
        self.waits()
        self.pipeline.start_role(name)

    def puts_to_sleep(self) -> None:
        child = self.pipeline.roles[self.role()]
        child.send(signal.SIGSTOP)
        self.asks()
        self.waits()
        child.send(signal.SIGCONT)

    def dies_on_the_way(self) -> None:
        role, when = self.random.choice(
            [("join", "after glassbox.scorecards"), ("committer", "before glassbox.receipts")]
        )
        self.gates.kill(role)
        self.pipeline.start_role(role, {**self.gates.clocks, "FAULT_DIES": f"{when} {self.random.randint(1, 20)}"})
        self.asks()
        self.waits()
        if self.pipeline.roles[role].running:
            self.gates.kill(role)
        self.pipeline.start_role(role, self.gates.clocks)

    def scales(self) -> None:
        name = f"{self.random.choice([role for role in ROLES if role != 'committer'])}-{self.random.randint(2, 4)}"
        if name not in self.pipeline.roles:
            self.pipeline.start_role(name, self.gates.clocks)
        elif self.pipeline.roles[name].running:
            self.gates.retire(name)

    def everything_down(self) -> None:
        for name in self.pipeline.roles:
            self.gates.kill(name)
        self.asks()
        for name in self.pipeline.roles:
            self.pipeline.start_role(name)

    def broker(self) -> int:
        return self.random.randint(1, self.kafka.broker.replication)

    def restarts_a_broker(self) -> None:
        number = self.broker()
        self.kafka.stop(number)
        self.asks()
        self.kafka.start(number)

    def kills_a_broker(self) -> None:
        number = self.broker()
        self.kafka.kill(number)
        self.asks()
        self.waits()
        self.kafka.start(number)

    def pauses_a_broker(self) -> None:
        number = self.broker()
        self.kafka.pause(number)
        self.waits()
        self.kafka.resume(number)
        self.kafka.wait()

    def poisons(self) -> None:
        poison = self.random.choice(list(POISON.values()))
        for topic in WORKED:
            self.gate.send(topic, [(None, poison)])
            self.poisoned += 1

    def doubles(self) -> None:
        with doubled(self.pipeline.broker):
            self.asks()
            self.waits()

    def repeats_old_results(self) -> None:
        """Events of evaluations that were closed long ago, in another order."""
        old = [(str(m.key() or b"", "utf-8"), m.value() or b"") for m in read_all(self.pipeline.broker, RESULTS)]
        chosen = self.random.sample(old, min(200, len(old)))
        self.gate.send(RESULTS, [event for event in chosen if _of_a_request(*event)])

    def a_deadline_passes(self) -> None:
        self.gates.hold.touch()
        self.gate.publish(self.random.randint(1, BURST), "hold:terminology", policy="quick")
        self.waits()
        self.gates.hold.unlink()

    def locks_the_ledger(self) -> None:
        with closing(sqlite3.connect(self.gates.data / "ledger" / "ledger.sqlite3", isolation_level=None)) as other:
            other.execute("PRAGMA busy_timeout = 30000")
            other.execute("BEGIN IMMEDIATE")
            self.asks()
            self.waits()
            other.execute("ROLLBACK")

    def fills_the_disk(self) -> None:
        with full(self.gates.data):
            self.asks()
            self.waits()

    def cuts_the_network(self) -> None:
        assert self.wire is not None
        self.wire.cut()
        self.asks()
        self.waits()
        self.wire.mend()

    def an_endpoint_in_trouble(self) -> None:
        rate = self.random.uniform(0.2, 1)
        self.server.faults = self.random.choice(
            [
                Faults(hang_rate=rate),
                Faults(error_rate=rate),
                Faults(rate_limit_rate=rate, retry_after_s=0.2),
                Faults(truncate_rate=rate),
                Faults(refuse_rate=rate),
                Faults(malformed="not_json"),
            ]
        )
        self.asks()
        self.waits()
        self.server.faults = Faults()

    def a_clock_jumps(self) -> None:
        (self.gates.folder / "clock").write_text(str(self.random.choice(JUMPS)))


def _of_a_request(key: str, event: bytes) -> bool:
    """Whether an event is not some poison: that would be one more dead letter."""
    try:
        return str(json.loads(event)["evaluation_id"]) == key
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def peak_kb(pid: int) -> int:
    """The most memory that a process has had resident, in kB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    minutes, seed = float(os.environ.get("MINUTES") or 20), seed_of_run()
    if sentence := lacking():
        sys.exit(sentence)
    print(f"soak of {minutes:g} minutes: SEED={seed} MINUTES={minutes:g} make soak")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glassbox-soak-")))
        wire: Wire | None = Wire()
        assert wire is not None
        stack.callback(wire.remove)
        if refused := wire.lay():
            print(f"left out: network cuts ({refused})")
            wire = None
        there = wire.here if wire is not None else None
        kafka = stack.enter_context(Kafka(folder / "kafka", brokers=3, also_at=there))
        server = stack.enter_context(endpoint())
        stack.enter_context(small_disk(folder / "data"))
        gates = Gates(kafka.broker, folder)
        stack.callback(gates.close)
        gates.clocks = {"FAULT_CLOCK": str(folder / "clock")}
        (folder / "clock").write_text("0")
        asks = {
            "GLASSBOX_LLM_BASE_URL": server.url,
            "GLASSBOX_LLM_MODEL": CHAT_MODEL,
            "GLASSBOX_EMBEDDING_MODEL": EMBEDDING_MODEL,
            "GLASSBOX_LLM_CALL_LIMIT_S": "2",
        }
        gates.start()
        gates.replace(*ROLES, environment=gates.clocks)
        gates.pipeline.start_role("grounding", {**gates.clocks, **asks}, [sys.executable, *MODULES["real"]])
        if wire is not None:
            inside = ["ip", "netns", "exec", wire.name, sys.executable, *MODULES["faulty"]]
            gates.pipeline.start_role(
                "structure-9", {**gates.clocks, "GLASSBOX_BROKER": kafka.seen_there.address}, inside
            )
        gate = stack.enter_context(gates.asking("soak", seed))
        soak = Soak(gates, gate, kafka, server, wire)
        began = time.monotonic()
        soak.run(minutes)
        ran = time.monotonic() - began
        seen = gate.settle(letters=soak.poisoned, timeout_s=SETTLE_S)
        print(f"{ran:.0f} s, then settled in {time.monotonic() - began - ran:.0f} s; faults {dict(soak.done)}")
        print(f"{len(gate.names)} requests, {len(seen.letters)} dead letters, receipts {dict(seen.results)}")
        outcomes = Counter(record["outcome"] for record in seen.records.values())
        print(f"outcomes {dict(outcomes)}; stopped and started again: {dict(gates.revived)}")
        peaks = {name: peak_kb(child.process.pid) for name, child in gates.pipeline.roles.items() if child.process}
        print(f"peak memory in MB: { {name: kb // 1024 for name, kb in peaks.items()} }")


if __name__ == "__main__":
    main()
