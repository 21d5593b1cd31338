"""`python -m tests.faults.soak`: every fault of the gates, mixed at random on three brokers for `MINUTES` minutes.

`SEED` chooses the faults, which of them last together, and for how long. They come in rounds of all, each by its
weight, so that none is left to chance; a soak of 20 minutes or more goes on until each was drawn twice. In the end
everything is mended, and what the gates assert must hold of all requests together: one record or one dead letter each,
the same bytes wherever it stands, nothing left to do, no role larger than `LARGEST_MB`. A fault that this machine does
not allow (another namespace, a disk of its own) is left out and named. `FAULTS`: names with commas, of which to have no
others.
"""

# ruff: noqa: T201 — it reports what it did

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from streams.clients import read_all
from streams.topics import REQUESTS
from tests.bench.processes import peak_mb
from tests.faults.endpoint import Endpoint
from tests.faults.gates import ROLES, Gates, Position, Seen, seed_of_run, small_disk
from tests.faults.mix import FAULTS
from tests.faults.scene import Fault, Scene
from tests.faults.test_messages import events_of
from tests.faults.test_network import Wire
from tests.kafka import Kafka, lacking
from tests.pipeline import MODULES

LONGEST_S = 12.0
"""How long a fault lasts, at most, unless mending it takes longer: twice a session of the broker."""
TOGETHER = 0.5
"""How often two last at the same time."""
STALLED_S = 420.0
"""Answers to what was never announced, since its request was erased, are forgotten after 300 s."""
LARGEST_MB = 512
FULL_MINUTES = 20
DISK_MB = 1024


class Soak:
    """What was drawn, and the most memory that each role has taken."""

    def __init__(self, scene: Scene, faults: list[Fault]) -> None:
        self.scene, self.faults = scene, faults
        self.began = time.monotonic()
        self.done: Counter[str] = Counter()
        self.together = 0
        self.peaks_mb: dict[str, float] = {}

    def run(self, minutes: float) -> None:
        end = self.began + minutes * 60
        each = 2 if minutes >= FULL_MINUTES else 0
        drawn: list[Fault] = []
        while time.monotonic() < end or any(self.done[fault.name] < each for fault in self.faults):
            drawn = drawn or self.round()
            first = drawn.pop()
            other = next((fault for fault in reversed(drawn) if not fault.touches & first.touches), None)
            if other is not None and self.scene.random.random() < TOGETHER:
                drawn.remove(other)
                self.together += 1
                self.happen(first, other)
            else:
                self.happen(first)

    def round(self) -> list[Fault]:
        every = [fault for fault in self.faults for _ in range(fault.weight)]
        self.scene.random.shuffle(every)
        return every

    def happen(self, *faults: Fault) -> None:
        took = f"{time.monotonic() - self.began:5.0f} s"
        print(f"{took} {' and '.join(fault.name for fault in faults)}", flush=True)
        self.scene.ask()
        with ExitStack() as stack:
            for fault in faults:
                self.done[fault.name] += 1
                stack.enter_context(fault.happens(self.scene))
            self.scene.ask()
            self.wait()
        self.scene.ask()

    def wait(self) -> None:
        """Let time pass. What stopped is started again, as in production."""
        end = time.monotonic() + self.scene.random.uniform(1, LONGEST_S)
        self.scene.gate.read(lambda _: time.monotonic() > end)
        self.measure()

    def measure(self) -> None:
        for name, child in self.scene.gates.pipeline.roles.items():
            with suppress(OSError, AssertionError):  # it has ended
                role = name.split("-")[0]
                self.peaks_mb[role] = max(self.peaks_mb.get(role, 0), peak_mb(child))

    def settle(self) -> Seen:
        scene, gate = self.scene, self.scene.gate
        self.measure()
        scene.redrive()
        names = set(gate.names)

        def ended(seen: Seen) -> bool:
            refused = {letter.get("evaluation_id") for letter in seen.letters.values() if letter["reason"] == "erased"}
            return (
                seen.receipts.keys() >= names
                and seen.letters.keys() >= scene.refused
                and scene.erased <= refused | seen.receipts.keys()
            )

        seen = gate.at_rest(ended, STALLED_S)
        self.measure()
        gate.have_one_record(names | (scene.erased & seen.receipts.keys()))
        self.each_request_ended(seen)
        unexplained = [letter for where, letter in seen.letters.items() if not self.expected(where, letter)]
        assert not unexplained, unexplained
        assert max(self.peaks_mb.values()) <= LARGEST_MB, self.peaks_mb
        gate.settled = True
        return seen

    def each_request_ended(self, seen: Seen) -> None:
        """Whatever stands on the topic of requests, whoever sent it, how often."""
        for message in read_all(self.scene.gates.pipeline.broker, REQUESTS):
            where = REQUESTS.name, str(message.partition()), str(message.offset())
            if where not in seen.letters:
                name = json.loads(message.value() or b"")["evaluation_id"]
                assert name in seen.receipts, f"{name} at {where} came to no end"

    def expected(self, where: Position, letter: Mapping[str, str]) -> bool:
        """Whether a message may be dead: it, or what it was when it was first sent, was sent to be refused."""
        partition, _, offset = letter.get("original", "").removeprefix(f"{REQUESTS.name}/").partition("/")
        sent = {where, (REQUESTS.name, partition, offset)} & (self.scene.refused | self.scene.late)
        return bool(sent) or (letter["reason"] == "erased" and letter.get("evaluation_id") in self.scene.erased)

    def report(self, seen: Seen, seed: int, ran_s: float, settled_s: float) -> Iterator[str]:
        gates = self.scene.gates
        outcomes = Counter(str(record["outcome"]) for record in seen.records.values())
        causes = Counter(
            part["cause"] for r in seen.records.values() for part in r["parts"] if part["state"] == "failed"
        )
        yield f"seed {seed}; {ran_s / 60:.1f} minutes of faults on three brokers, at rest {settled_s:.0f} s later"
        yield f"faults: {sum(self.done.values())}, of which {2 * self.together} two at a time"
        yield from (f"  {count:4} {name}" for name, count in sorted(self.done.items()))
        asked, erased = len(self.scene.gate.names), len(self.scene.erased)
        yield f"evaluations: {asked}, and {erased} erased; records: {len(seen.records)}, {dict(outcomes)}"
        yield f"failed parts by cause: {dict(causes)}"
        reasons = Counter(letter["reason"] for letter in seen.letters.values())
        again = sum(letter.get("attempt", "0") != "0" for letter in seen.letters.values())
        yield f"dead letters: {len(seen.letters)}, {dict(reasons)}; {again} of them redriven before"
        yield f"receipts: {dict(seen.results)}: all but the created are redelivered or repeated"
        yield f"stopped without acknowledging and started again: {dict(gates.revived)}; by a task: {dict(gates.killed)}"
        yield "peak memory, MB: " + ", ".join(f"{role} {mb:.0f}" for role, mb in sorted(self.peaks_mb.items()))


def main() -> None:
    minutes, seed = float(os.environ.get("MINUTES") or FULL_MINUTES), seed_of_run()
    chosen = os.environ.get("FAULTS", "")
    if sentence := lacking():
        sys.exit(sentence)
    print(f"soak of {minutes:g} minutes: SEED={seed} MINUTES={minutes:g} make soak", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glassbox-soak-")))
        faults = {fault.name: fault for fault in FAULTS}
        wire: Wire | None = Wire()
        assert wire is not None
        stack.callback(wire.remove)
        refused = "ip is not there: install iproute2" if shutil.which("ip") is None else wire.lay()
        if refused:
            print(f"left out: {faults.pop('a network cut').name} ({refused})")
            wire = None
        there = wire.here if wire is not None else None
        kafka = stack.enter_context(Kafka(folder / "kafka", brokers=3, also_at=there))
        endpoint = stack.enter_context(Endpoint())
        stack.enter_context(small_disk(folder / "data", DISK_MB))
        if not os.path.ismount(folder / "data"):
            print(f"left out: {faults.pop('a full disk').name} (a disk of its own takes root and the right to mount)")
        gates = Gates(kafka.broker, folder)
        stack.callback(gates.close)
        gates.clocks = {"FAULT_CLOCK": str(folder / "clock")}
        (folder / "clock").write_text("0")
        gates.start()
        gates.replace(*ROLES, environment=gates.clocks)
        asking = {**gates.clocks, **endpoint.environment(call_limit_s=2)}
        gates.pipeline.start_role("grounding", asking, [sys.executable, *MODULES["real"]])
        if wire is not None:
            inside = ["ip", "netns", "exec", wire.name, sys.executable, *MODULES["faulty"]]
            far = {**gates.clocks, "GLASSBOX_BROKER": kafka.seen_there.address}
            gates.pipeline.start_role("structure-9", far, inside)
        gate = stack.enter_context(gates.asking("soak", seed))
        (model,) = gate.publish(1)
        gate.answered(1)
        scene = Scene(gates, gate, kafka, endpoint, wire, model, events_of(kafka.broker, model))
        soak = Soak(scene, [fault for name, fault in faults.items() if not chosen or name in chosen.split(",")])
        try:
            soak.run(minutes)
            ran = time.monotonic()
            seen = soak.settle()
        except BaseException:
            kept = Path(tempfile.mkdtemp(prefix="glassbox-soak-logs-"))
            shutil.copytree(folder / "logs", kept, dirs_exist_ok=True)
            print(f"failed: the roles' logs are kept in {kept}\n{traceback.format_exc()}", flush=True)
            raise
        print("\n".join(soak.report(seen, seed, ran - soak.began, time.monotonic() - ran)))


if __name__ == "__main__":
    main()
