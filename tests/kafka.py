"""Apache Kafka brokers for the tests, in KRaft mode, from the jars that `make kafka` copied.

    with Kafka(folder, brokers=3) as kafka:
        create_topics(kafka.broker)
        kafka.kill(2)

Each broker is a process with a small heap that dies with the test run; every node is also a controller, so that one
of three may go. `KAFKA_JARS` names another folder of jars, to run the same tests on another release.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from glassbox.cli.children import Child, free_ports, stop_all
from streams.access import Acl
from streams.clients import Broker
from streams.security import Mechanism, Security
from tests.ledger.fabric.peer.certificates import Authority
from tests.pipeline import ROOT, until

JARS = Path(os.environ.get("KAFKA_JARS", ROOT / "build" / "kafka"))
START_S = 300
"""How long brokers may take to answer on a busy machine; on two idle cores one takes 3 s, three take 8 s."""

_JVM = [
    *("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC"),
    "-XX:TieredStopAtLevel=1",  # the quick compiler alone: a test's broker does not live long enough for the other
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]
EITHER = ["embedded", pytest.param("kafka", marks=pytest.mark.timeout(180))]
"""Parameters of a fixture that gives each broker in turn; the first test on Kafka also waits for it to start."""

PLAIN_USER, PASSWORD = "structure", "open-sesame"
_CLUSTER = "glassbox-tests-1234567"

_EVERY_ACL = AclBindingFilter(
    *(ResourceType.ANY, None, ResourcePatternType.ANY),
    *(None, None, AclOperation.ANY, AclPermissionType.ANY),
)


def lacking() -> str | None:
    """What is missing to run a broker, as a sentence; None where nothing is."""
    if shutil.which("java") is None:
        return "no Java runs the Kafka broker: install Java 17 or later (Debian: apt-get install default-jre-headless)"
    if not any(JARS.glob("kafka_*.jar")):
        return f"no Kafka in {JARS}: run `make kafka`, which needs Maven (Debian: apt-get install maven)"
    return None


class Kafka:
    """Brokers 1 to `brokers` in a folder. `settings`: broker properties added to those of every broker. `also_at`:
    another address of this machine at which clients find them; `seen_there` is the broker as those see it.

    `secured`: beside the open listener, whose clients may do anything, each broker has two where nothing is allowed
    that no ACL allows. On both, a certificate of `authority` is to be trusted; the server's is for 127.0.0.1.
    `secured_as` gives the broker as a client with a user's credentials sees it.
    """

    def __init__(
        self,
        folder: Path,
        brokers: int = 1,
        *,
        secured: bool = False,
        also_at: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self._settings = folder, dict(settings or {})
        self._numbers = range(1, brokers + 1)
        names = ["OPEN", "CONTROLLER", *(["SASL", "MTLS"] if secured else []), *(["THERE"] if also_at else [])]
        self._hosts = dict.fromkeys(names, "127.0.0.1") | ({"THERE": also_at} if also_at else {})
        ports = iter(free_ports(brokers * len(names)))
        self._ports = {name: {number: next(ports) for number in self._numbers} for name in names}
        self.authority = Authority.create("Kafka test authority") if secured else None
        self._children = {number: self._prepared(number) for number in self._numbers}
        self.broker = Broker(self._address("OPEN"), replication=brokers)

    def _address(self, listener: str) -> str:
        return ",".join(f"{self._hosts[listener]}:{port}" for port in self._ports[listener].values())

    @property
    def seen_there(self) -> Broker:
        """The broker for clients at `also_at`."""
        return replace(self.broker, address=self._address("THERE"))

    @property
    def address(self) -> str:
        """Bootstrap servers of the open listener."""
        return self._address("OPEN")

    @property
    def ca_path(self) -> Path:
        """The certificate that clients of the secured listeners are to trust."""
        return self.folder / "ca.pem"

    def _prepared(self, number: int) -> Child:
        home = self.folder / f"broker-{number}"
        data = home / "data"
        data.mkdir(parents=True)
        # what `kafka-storage.sh format` writes, without a second JVM
        (data / "meta.properties").write_text(f"version=1\ncluster.id={_CLUSTER}\nnode.id={number}\n")
        lines = {**self._properties(number, data), **(self._secured(home) if self.authority else {}), **self._settings}
        (home / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        command = ["java", *_JVM, "-cp", f"{JARS}/*", "kafka.Kafka", str(home / "server.properties")]
        return Child(f"kafka-{number}", command, dict(os.environ), self.folder)

    def _properties(self, number: int, data: Path) -> dict[str, str]:
        protocols = {"SASL": "SASL_SSL", "MTLS": "SSL"}
        here = {name: f"{name}://{self._hosts[name]}:{ports[number]}" for name, ports in self._ports.items()}
        voters = (f"{voter}@127.0.0.1:{port}" for voter, port in self._ports["CONTROLLER"].items())
        copies = str(len(self._numbers))
        return {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "OPEN",
            "listeners": ",".join(here.values()),
            "advertised.listeners": ",".join(url for name, url in here.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{protocols.get(name, 'PLAINTEXT')}" for name in here),
            "log.dirs": str(data),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": copies,
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),  # 128 MB otherwise, of a heap of 384
        }

    def _secured(self, home: Path) -> dict[str, str]:
        assert self.authority is not None
        server = self.authority.issue("broker", hosts=["127.0.0.1"])
        self.ca_path.write_bytes(self.authority.root.certificate_pem)
        (home / "server.pem").write_bytes(server.key_pem + server.certificate_pem)
        plain = f"org.apache.kafka.common.security.plain.PlainLoginModule required user_{PLAIN_USER}={PASSWORD};"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # who comes by the open listener
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(home / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_path),
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
            "listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": plain,
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
        }

    def __enter__(self) -> Kafka:
        try:
            for number in self._numbers:
                self._children[number].start()
            self.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for child in self._children.values():
            child.send(signal.SIGCONT)  # a paused one would not hear SIGTERM
        stop_all(self._children.values(), 2)

    @cached_property
    def admin(self) -> AdminClient:
        """Of the open listener."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def start(self, number: int) -> None:
        """Start a broker that was stopped or killed, on its old data and ports, and wait until it serves."""
        self._children[number].start()
        self.wait()

    def stop(self, number: int) -> None:
        """Let a broker go in good order: it hands its partitions over first."""
        stop_all([self._children[number]], 20)

    def kill(self, number: int) -> None:
        """SIGKILL."""
        stop_all([self._children[number]], 0)

    def pause(self, number: int) -> None:
        """SIGSTOP: it keeps its connections and answers nobody."""
        self._children[number].send(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self._children[number].send(signal.SIGCONT)

    def wait(self) -> None:
        """Until every broker that runs is in the cluster and holds every replica that it should."""
        until(self._settled, START_S, "Kafka brokers ready")

    def _settled(self) -> bool:
        running = {number for number, child in self._children.items() if child.running}
        for child in self._children.values():
            assert child.exit_code in (None, 0, 143, -9), f"{child.name}: {child.log.read_text()[-2000:]}"
        try:
            cluster = self.admin.list_topics(timeout=1)
        except Exception:
            return False
        partitions = (part for topic in cluster.topics.values() for part in topic.partitions.values())
        return set(cluster.brokers) == running and all(
            set(part.isrs) == set(part.replicas) & running and part.leader in running for part in partitions
        )

    def empty(self) -> Broker:
        """Delete every topic, consumer group and ACL; returns the broker, as new."""
        if self.authority is not None:
            _done(self.admin.delete_acls([_EVERY_ACL]))
            until(lambda: not self._acls(), 30, "ACLs deleted")
        groups = [group.group_id for group in self.admin.list_consumer_groups().result().valid]
        _done(self.admin.delete_consumer_groups(groups) if groups else {})
        names = self._topics()
        _done(self.admin.delete_topics(names, operation_timeout=30) if names else {})
        until(lambda: not self._topics(), 30, "topics deleted")  # the controller knows before the broker does
        return self.broker

    def _acls(self) -> list[AclBinding]:
        return list(self.admin.describe_acls(_EVERY_ACL).result())

    def _topics(self) -> list[str]:
        return [name for name in self.admin.list_topics(timeout=10).topics if not name.startswith("__")]

    def secured_as(self, user: str, how: Mechanism | Literal["mTLS"]) -> Broker:
        """The broker for a user who proves who it is by a password or by a certificate."""
        if how == "mTLS":
            assert self.authority is not None
            pair, files = self.authority.issue(user), [self.folder / f"{user}.pem", self.folder / f"{user}.key"]
            for path, content in zip(files, (pair.certificate_pem, pair.key_pem), strict=True):
                path.write_bytes(content)
            security = Security("SSL", ca=self.ca_path, certificate=files[0], key=files[1])
            return replace(self.broker, address=self._address("MTLS"), security=security)
        if how == "PLAIN":
            assert user == PLAIN_USER, "PLAIN has its one user in the broker's properties"
        else:
            credential = ScramCredentialInfo(ScramMechanism[how.replace("-", "_")], 4096)
            wanted = [UserScramCredentialUpsertion(user, credential, PASSWORD.encode())]
            _done(self.admin.alter_user_scram_credentials(wanted))
        security = Security("SASL_SSL", how, user, PASSWORD, self.ca_path)
        return replace(self.broker, address=self._address("SASL"), security=security)

    def allow(self, acls: Iterable[Acl]) -> None:
        """On the secured listeners, each user as `User:NAME`; once after `empty`."""
        wanted = [
            AclBinding(
                ResourceType[acl.resource.upper()],
                acl.name,
                ResourcePatternType.LITERAL,
                f"User:{acl.user}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for acl in acls
            for operation in acl.operations
        ]
        _done(self.admin.create_acls(wanted))
        until(lambda: len(self._acls()) == len(wanted), 30, "ACLs in force")


def _done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result()
