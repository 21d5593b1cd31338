"""A worker whose network is cut: it lives in a network namespace of its own, one wire away from the broker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from streams.access import group
from tests.faults.gates import ROLES, Gates, seed_of_run
from tests.kafka import Kafka, lacking
from tests.pipeline import MODULES, until

pytestmark = pytest.mark.timeout(600)


class Wire:
    """A namespace, and the pair of interfaces that joins it to this machine. Needs root."""

    def __init__(self) -> None:
        self.name, subnet = f"gb{os.getpid()}", f"10.213.{os.getpid() % 256}"
        self.here, self.there = f"{subnet}.1", f"{subnet}.2"
        self._end = f"{self.name}-a"

    def lay(self) -> str | None:
        """What the system says against it, if anything."""
        other = f"{self.name}-b"
        for command in (
            f"netns add {self.name}",
            f"link add {self._end} type veth peer name {other} netns {self.name}",
            f"addr add {self.here}/24 dev {self._end}",
            f"link set {self._end} up",
            f"-n {self.name} addr add {self.there}/24 dev {other}",
            f"-n {self.name} link set {other} up",
            f"-n {self.name} link set lo up",
        ):
            done = self._ip(command)
            if done.returncode:
                return f"ip {command}: {done.stderr.strip()}"
        return None

    def _ip(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)

    def cut(self) -> None:
        """From now on packets get lost on either side; no connection is told."""
        self._ip(f"-n {self.name} link set {self.name}-b down")

    def mend(self) -> None:
        self._ip(f"-n {self.name} link set {self.name}-b up")

    def remove(self) -> None:
        self._ip(f"link del {self._end}")
        self._ip(f"netns del {self.name}")


@pytest.fixture(scope="module")
def wire(missing: Callable[[str], NoReturn]) -> Iterator[Wire]:
    if shutil.which("ip") is None:
        missing("network namespaces are made with ip: install it (Debian: apt-get install iproute2)")
    made = Wire()
    try:
        if sentence := made.lay():
            missing(f"a network namespace takes root and a kernel that allows it ({sentence})")
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def far(wire: Wire, tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str], NoReturn]) -> Iterator[Kafka]:
    if sentence := lacking():
        missing(sentence)
    with Kafka(tmp_path_factory.mktemp("far-kafka"), also_at=wire.here) as kafka:
        yield kafka


@pytest.fixture
def site(far: Kafka, wire: Wire, tmp_path: Path) -> Iterator[Gates]:
    """A pipeline whose terminology worker is at the other end of the wire."""
    made = Gates(far.broker, tmp_path)
    try:
        made.start([role for role in ROLES if role != "terminology"])
        inside = ["ip", "netns", "exec", wire.name, sys.executable, *MODULES["faulty"]]
        made.pipeline.start_role("terminology", {"GLASSBOX_BROKER": far.seen_there.address}, inside)
        yield made
    finally:
        made.close()


def members(kafka: Kafka, role: str) -> int:
    (described,) = kafka.admin.describe_consumer_groups([group(role)]).values()
    return len(described.result().members)


def test_a_worker_cut_off_from_the_broker(site: Gates, far: Kafka, wire: Wire) -> None:
    with site.asking("cut", seed_of_run()) as gate:
        gate.publish(20)
        gate.answered(20)
        site.hold.touch()
        gate.publish(20, "hold:terminology")
        until(lambda: site.pipeline.metric("join", "glassbox_open_windows") == 20, 60, "tasks are on their way")
        wire.cut()
        site.hold.unlink()
        gate.publish(20)
        until(lambda: members(far, "terminology") == 0, 60, "the broker has given the worker up")
        site.pipeline.start_role("terminology-2")
        gate.answered(60)
        wire.mend()
        gate.publish(20)
        until(lambda: (site.revive(), members(far, "terminology") == 2)[1], 90, "the worker is back")
        gate.publish(20)
        gate.settle()
        wire.cut()
        gate.publish(20)
        until(lambda: members(far, "terminology") == 1, 60, "the broker has given the worker up again")
        wire.mend()
        gate.settle()
