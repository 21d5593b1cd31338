"""A whole pipeline of real processes on a real broker, for the tests: every role as `glassbox worker` runs it.

`judges="trivial"` replaces each worker's judge by one that answers at once, so that what is tested is the transport;
the roles that do not judge are the product's own in any case. `judges="faulty"` runs each role so that a test may have
it fail (tests.faults.role).
`broker`: one that is there already, by default an embedded one of the pipeline's own. `of_role`: more environment for
a role, by its name.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from glassbox.cli.children import Child, free_ports, stop_all
from glassbox.cli.policy import register
from glassbox.cli.publish import Publisher
from glassbox.cli.wiring import own_kinds
from glassbox.contract.policy import load_policies
from streams.admin import create_topics, wait_for_broker
from streams.broker import embedded_broker_command
from streams.clients import Broker, BrokerError, reader
from streams.roles import DOORS, ROLES
from streams.topics import DEAD_LETTERS, RECEIPTS, REQUESTS, topics

ROOT = Path(__file__).parent.parent
MODULES = {
    "trivial": ["-m", "tests.trivial_role"],
    "faulty": ["-m", "tests.faults.role"],
    "real": ["-m", "glassbox.cli", "worker"],
}


def get(port: int, path: str) -> tuple[int, str]:
    """Status and body of a role's health address; (0, "") where nothing answers."""
    connection = HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll a condition; fails with `what` after `timeout_s` seconds. The longer it takes the less often it is asked:
    whoever answers shares the processors with those that are waited for."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < timeout_s, f"timed out after {timeout_s:g} s: {what}"
        time.sleep(min(max(0.02, waited / 20), 0.25))


@dataclass
class Settled:
    """What came of the requests: receipts by evaluation id, dead letters by source position, their values counted."""

    receipts: Counter[str] = field(default_factory=Counter)
    digests: dict[str, set[str]] = field(default_factory=dict)
    results: Counter[str] = field(default_factory=Counter)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: Counter[bytes | None] = field(default_factory=Counter)
    dead: dict[tuple[str, str, str], dict[str, str]] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)

    def take(self, message: Any) -> None:
        if message.topic() == DEAD_LETTERS.name:
            headers = {name: value.decode() for name, value in message.headers() or ()}
            where = headers["source_topic"], headers["source_partition"], headers["source_offset"]
            self.dead[where] = headers
            self.values[message.value()] += 1
            return
        receipt = json.loads(message.value())
        if receipt["record"]["kind"] == "scorecard":
            name = receipt["evaluation_id"]
            self.receipts[name] += 1
            self.results[receipt["result"]] += 1
            self.records.setdefault(name, receipt["record"])
            self.digests.setdefault(name, set()).add(receipt["record_digest"])
            self.arrived.setdefault(name, time.monotonic())


class Pipeline:
    """Broker, topics, policies and role processes in one folder. `names`: role, or role-2 for a second worker."""

    def __init__(
        self,
        folder: Path,
        judges: str = "trivial",
        environment: dict[str, str] | None = None,
        broker: Broker | None = None,
        of_role: Callable[[str], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self.folder, self._module, self._of_role = folder, MODULES[judges], of_role
        self._server: Child | None = None
        if broker is None:
            (port,) = free_ports(1)
            broker = Broker(f"127.0.0.1:{port}", embedded=True)
            self._server = Child("broker", embedded_broker_command(port), dict(os.environ), folder)
        self.broker = broker
        self._base = {
            **os.environ,
            "GLASSBOX_BROKER": self.broker.address,
            "GLASSBOX_REPLICATION": str(self.broker.replication),
            "GLASSBOX_DATA_DIR": str(folder / "data"),
            "GLASSBOX_POLICY": "offline",
            "GLASSBOX_TENANT_BURST": "1000000",  # one lane, unless a test is about both
            **(environment or {}),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *(environment or {}).get("PYTHONPATH", "").split(os.pathsep)]),
        }
        self.roles: dict[str, Child] = {}
        self.ports: dict[str, int] = {}

    def start(self, names: Iterable[str] = ROLES) -> None:
        """Start the broker once, then these roles, and wait until each is ready."""
        names = list(names)
        if not self.roles:
            if self._server is not None:
                self._server.start()
            wait_for_broker(self.broker, 20)
            config = self._base.get("GLASSBOX_CONFIG")
            policies = load_policies(Path(config).read_text() if config else "").values()
            create_topics(self.broker, topics(own_kinds(policies)))
            try:
                register(self.broker, policies)
            except BrokerError:  # new topics on a busy machine: some have no leader for longer than a producer waits
                register(self.broker, policies)
        for name in names:
            self.start_role(name)
        for name in names:
            self.wait_ready(name)

    def start_role(
        self, name: str, environment: Mapping[str, str] | None = None, command: Iterable[str] | None = None
    ) -> None:
        """`environment`: more variables, from this start on. `command`: what runs the role, by default Python with
        the module for it."""
        if name not in self.roles or environment is not None or command is not None:
            self.ports[name] = self.ports.get(name) or free_ports(1)[0]
            more = {"GLASSBOX_METRICS_PORT": str(self.ports[name]), **self._of_role(name), **(environment or {})}
            role = name.split("-")[0]
            own = role in ("intake", "join", "committer", *DOORS) and self._module != MODULES["faulty"]
            module = MODULES["real"] if own else self._module
            started = [*(command or [sys.executable, *module]), role]
            self.roles[name] = Child(name, started, {**self._base, **more}, self.folder)
        self.roles[name].start()

    def wait_ready(self, name: str) -> None:
        child = self.roles[name]

        def ready() -> bool:
            assert child.running, f"{name} ended with {child.exit_code}: {child.log.read_text()[-2000:]}"
            return get(self.ports[name], "/ready")[0] == 200

        until(ready, 300, f"{name} ready: {get(self.ports[name], '/ready')}")

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        process = self.roles[name].process
        assert process is not None
        process.send_signal(number)
        process.wait(20)

    def command(self, *arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """What `glassbox ARGUMENTS` says with the pipeline's settings and these."""
        command = [sys.executable, "-m", "glassbox.cli", *arguments]
        more = {**self._base, **environment}
        return subprocess.run(command, env=more, cwd=self.folder, capture_output=True, text=True, check=False)

    def metric(self, name: str, metric: str) -> float:
        """The sum of a metric's samples on a role, over all labels."""
        lines = get(self.ports[name], "/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == metric)

    def publish(self, requests: Iterable[dict[str, Any] | bytes | None]) -> list[float]:
        """Send requests and wait for the acknowledgements; returns the monotonic time at which each was sent."""
        sent = []
        with Publisher(self.broker) as publisher:
            for request in requests:
                key = request.get("evaluation_id") if isinstance(request, dict) else None
                value = json.dumps(request).encode() if isinstance(request, dict) else request
                publisher.send(REQUESTS, key.encode() if key else None, value)  # type: ignore[arg-type]
                sent.append(time.monotonic())
        return sent

    @contextmanager
    def watching(self) -> Iterator[Callable[[Callable[[Settled], bool], float], Settled]]:
        """Follow receipts and dead letters; the function given reads on until a condition holds, or nothing has come
        for so many seconds."""
        consumer, settled = reader(self.broker, [RECEIPTS, DEAD_LETTERS]), Settled()

        def read(enough: Callable[[Settled], bool], stalled_s: float) -> Settled:
            last = time.monotonic()
            while not enough(settled) and time.monotonic() < last + stalled_s:
                for message in consumer.consume(500, 0.1):
                    settled.take(message)
                    last = time.monotonic()
            return settled

        try:
            yield read
        finally:
            consumer.close()

    def close(self) -> None:
        stop_all(self.roles.values(), 10)
        if self._server is not None:
            stop_all([self._server], 2)


def request(name: str, **changes: Any) -> dict[str, Any]:
    """A small valid request."""
    return {
        "evaluation_id": name,
        "query": "Who wrote the first program?",
        "answer": "Ada Lovelace wrote the first program in 1843.",
        "retrieved_passages": ["Ada Lovelace wrote the first program in 1843.", "Charles Babbage built engines."],
        **changes,
    }
