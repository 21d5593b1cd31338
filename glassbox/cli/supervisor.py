"""Everything on this machine: broker, offline model and every role as a process of its own, watched and restarted.

Single-threaded: each step is short and looks whether it is asked to stop.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from glassbox.cli.children import Child, Stop, free_ports, stop_all
from glassbox.cli.errors import UNABLE, CommandError
from glassbox.cli.wiring import own_judges, own_kinds
from glassbox.settings import PREFIX, Settings, up_lock
from glassbox.settings import variable as setting

if TYPE_CHECKING:
    from streams.clients import Broker

SLOW_STARTERS = ("grounding", "relevance")
"""Roles that import large libraries for seconds: started first, so that the others start in their shadow."""

_START_S = 30.0
"""How long broker and model may take to answer."""
_BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_STEADY_S = 60.0
"""A role that ran this long before it ended starts again without the delay of earlier failures."""


class Supervisor:
    """The processes of one data folder. `say` takes sentences for stderr; `workers`: processes a judge kind; `doors`:
    the catalogue and the gateway too."""

    def __init__(
        self, settings: Settings, stop: Stop, say: Callable[[str], None], workers: int = 1, *, doors: bool = False
    ) -> None:
        self.settings, self.stop, self.say = settings, stop, say
        self._base = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
        self._base |= settings.environment()
        self._own_kinds = own_kinds(settings.policies().values())
        self._names = _role_names(workers, self._own_kinds, doors)
        self._gateway_port = (settings.gateway_port or free_ports(1)[0]) if doors else None
        self._ports = self._metrics_ports()
        self._roles: dict[str, Child] = {}
        self._servers: list[Child] = []
        self._restart_at: dict[str, float] = {}
        self.broker: Broker | None = None
        self.llm = settings.llm_base_url
        self.started_at = time.time()

    @property
    def metrics(self) -> dict[str, str]:
        """Role name -> base address of its /live, /ready and /metrics."""
        return {name: f"http://{self.settings.metrics_host}:{port}" for name, port in self._ports.items()}

    @property
    def gateway(self) -> str | None:
        """Base address of the gateway; None without doors."""
        return f"http://{self.settings.gateway_host}:{self._gateway_port}" if self._gateway_port else None

    def _metrics_ports(self) -> dict[str, int]:
        first = self.settings.metrics_port
        ports = range(first, first + len(self._names)) if first else free_ports(len(self._names))
        return dict(zip(self._names, ports, strict=True))

    def start_log(self) -> Broker:
        """Broker, model and topics; the policies stand in the log before any role reads, and on Fabric. Raises
        `BrokerError` and `LedgerError`."""
        from glassbox.cli.ledgers import register_on_fabric
        from glassbox.cli.policy import register
        from streams.admin import create_topics, wait_for_broker
        from streams.topics import topics

        policies = self.settings.policies()
        if "fabric" in self.settings.ledgers:
            asyncio.run(register_on_fabric(self.settings, policies.values()))
        broker = self.broker = self._start_broker()
        if self.llm is None:
            self._start_model()
        self._write_up()
        wait_for_broker(broker, _START_S, lambda: not self.stop and all(s.running for s in self._servers))
        create_topics(broker, topics(self._own_kinds))
        register(broker, policies.values())
        return broker

    def _start_broker(self) -> Broker:
        from streams.broker import embedded_broker_command
        from streams.clients import Broker
        from streams.note_files import STARTS, forget_notes

        given = self.settings
        if given.broker_address is not None:
            return Broker(given.broker_address, given.partitions, given.replication, security=given.security())
        (port,) = free_ports(1)
        try:
            command = embedded_broker_command(port)
        except FileNotFoundError as error:
            raise CommandError(str(error)) from None
        forget_notes(given.data_dir / STARTS)
        if self._gateway_port:
            _forget_open(given)
        self._serve(Child("broker", command, self._base, given.data_dir))
        return Broker(f"127.0.0.1:{port}", given.partitions, embedded=True)

    def _start_model(self) -> None:
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "judges.lexical", "--host", "127.0.0.1", "--port", str(port)]
        self._serve(Child("model", command, self._base, self.settings.data_dir))
        self.llm = f"http://127.0.0.1:{port}/v1"

    def _serve(self, server: Child) -> None:
        server.start()
        self._servers.append(server)

    def start_roles(self) -> None:
        """Start every role, the slow starters first. None waits for the model: requests wait in the log."""
        for name in sorted(self._names, key=lambda name: name.split("-")[0] not in SLOW_STARTERS):
            if not self.stop:
                self._start_role(name)
        self._write_up()

    def _start_role(self, name: str) -> None:
        environment = self._base | {setting("metrics_port"): str(self._ports[name])}
        if name == "gateway":
            environment[setting("gateway_port")] = str(self._gateway_port)
        command = [sys.executable, "-m", "glassbox.cli", "worker", name.split("-")[0]]
        child = self._roles.setdefault(name, Child(name, command, environment, self.settings.data_dir))
        child.start()

    def watch(self) -> None:
        """One look at the processes: a role that ended starts again after a delay. Raises `CommandError` where broker
        or model ended, or a role says that it cannot run with these settings."""
        for server in self._servers:
            if not server.running:
                raise CommandError(
                    f"the {server.name} ended with code {server.exit_code}: {server.last_line()} (log: {server.log})"
                )
        for name, child in self._roles.items():
            if child.running:
                continue
            if name in self._restart_at:
                if time.monotonic() >= self._restart_at[name]:
                    del self._restart_at[name]
                    child.start()
                    self._write_up()
                continue
            if child.exit_code == UNABLE:
                raise CommandError(f"{name} cannot run: {child.last_line().removeprefix('glassbox: ')}")
            if time.monotonic() - child.started_at > _STEADY_S:
                child.failures = 0
            delay = _BACKOFF_S[min(child.failures, len(_BACKOFF_S) - 1)]
            child.failures += 1
            self._restart_at[name] = time.monotonic() + delay
            self.say(f"{name} ended with code {child.exit_code}; it starts again in {delay:g} s (log: {child.log})")

    def waiting_for(self) -> list[str]:
        """The roles (and the model) that do not answer ready yet."""
        addresses = {name: f"{address}/ready" for name, address in self.metrics.items()}
        if self.settings.llm_base_url is None:
            addresses["model"] = f"{self.llm}/models"
        return [name for name, address in addresses.items() if not _answers(address)]

    def close(self, grace_s: float) -> None:
        """Stop the roles, which may finish what they hold within `grace_s` seconds, then what they rest on."""
        stop_all(self._roles.values(), grace_s, self.stop)
        stop_all(self._servers, 2.0, self.stop)
        with suppress(OSError):
            (self.settings.data_dir / "up.json").unlink(missing_ok=True)

    def _write_up(self) -> None:
        assert self.broker is not None
        children = [*self._servers, *self._roles.values()]
        found: dict[str, Any] = {
            "broker": {
                "address": self.broker.address,
                "partitions": self.broker.partitions,
                "embedded": self.broker.embedded,
            },
            "llm": self.llm,
            "gateway": self.gateway,
            "metrics": self.metrics,
            "ledger": str(self.settings.ledger_path),
            "data_dir": str(self.settings.data_dir),
            "pids": {"up": os.getpid()} | {c.name: c.process.pid for c in children if c.process},
        }
        temporary = self.settings.data_dir / ".up.json"
        temporary.write_text(json.dumps(found, indent=2) + "\n")
        temporary.replace(self.settings.data_dir / "up.json")


@contextmanager
def supervised(
    settings: Settings,
    stop: Stop,
    say: Callable[[str], None],
    *,
    workers: int = 1,
    doors: bool = False,
    grace_s: float = 10.0,
) -> Iterator[Supervisor]:
    """A supervisor that owns the data folder; when the block ends, no process of it is left."""
    folder: Path = settings.make_data_dir()
    with up_lock(folder):
        own_judges(settings.policies().values())
        settings.cards()
        settings.id_key()
        if "merkle" in settings.ledgers:
            settings.signing_key()  # made here, so that every role finds them
        supervisor = Supervisor(settings, stop, say, workers, doors=doors)
        try:
            yield supervisor
        finally:
            supervisor.close(grace_s)


def _role_names(workers: int, own_kinds: tuple[str, ...], doors: bool) -> list[str]:
    from glassbox.contract.verdict import KINDS
    from streams.roles import DOORS, roles

    more = [f"{kind}-{n}" for n in range(2, workers + 1) for kind in (*KINDS, *own_kinds)]
    return [*roles(own_kinds), *more, *(DOORS if doors else ())]


def _forget_open(settings: Settings) -> None:
    """What was on its way went with the topics of the embedded broker that ran before."""
    from glassbox.catalogue.database import Database
    from glassbox.catalogue.writing import forget

    database = Database(settings.catalogue)
    try:
        database.migrate()
        forget(database, open_only=True)
    finally:
        database.close()


def _answers(address: str) -> bool:
    """Whether GET gives 200. Not through urllib, which would ask a proxy of the environment for this machine."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=1)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
