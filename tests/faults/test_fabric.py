"""The pipeline on Fabric while its network fails: one record on the ledger or one dead letter for each request."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from glassbox.cli.errors import CommandError
from glassbox.cli.ledgers import open_committer, register_on_fabric
from glassbox.cli.policy import register
from glassbox.contract.events import rfc3339
from glassbox.contract.policy import load_policies
from glassbox.contract.record import record_digest
from glassbox.settings import Settings
from ledger.anchoring import compare
from ledger.checkpoint import parse
from ledger.fabric.ledger import FabricLedger
from ledger.merkle_log import MerkleLog
from ledger.port import Ledger
from streams.roles import ROLES
from tests.ledger.fabric.network import TestNetwork
from tests.pipeline import ROOT, Pipeline, Settled, get, request, until

AWAY_S = 2.0
"""How long what is away stays away; a minute differs in nothing but the length of the test."""

pytestmark = pytest.mark.timeout(240)

POLICIES = load_policies("").values()


class Site:
    """A pipeline without a committer, which each test starts on the network that it is about."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._environment: dict[str, str] = {}

    def commit_to(self, environment: Mapping[str, str]) -> None:
        """Have a committer that runs with these variables; it need not be ready."""
        committer = self.pipeline.roles.get("committer")
        if committer is not None and committer.running:
            if self._environment == environment:
                return
            self.pipeline.kill("committer", signal.SIGTERM)
        self._environment = dict(environment)
        self.pipeline.start_role("committer", environment)

    @property
    def ready(self) -> tuple[int, str]:
        return get(self.pipeline.ports["committer"], "/ready")

    def is_in_trouble(self, sentence: str) -> None:
        """Wait until the committer says so, and see that it has not given up."""
        until(lambda: re.search(sentence, self.ready[1]) is not None, 60, f"{sentence!r}: {self.ready}")
        assert self.ready[0] == 503
        assert get(self.pipeline.ports["committer"], "/live") == (200, "ok\n")

    def is_well(self) -> None:
        """Nothing is left to do, and nothing stuck."""
        self.pipeline.wait_ready("committer")
        until(
            lambda: self.pipeline.metric("committer", "glassbox_unacknowledged_messages") == 0, 30, "all acknowledged"
        )
        assert self.on_their_way() == 0

    def on_their_way(self) -> int:
        """Transactions that the committer has on disk because it does not know their outcome."""
        with closing(sqlite3.connect(self.pipeline.folder / "data" / "fabric-pending.sqlite")) as pending:
            (count,) = pending.execute("SELECT count(*) FROM pending").fetchone()
        return int(count)


@pytest.fixture(scope="module")
def network(fabric_network: TestNetwork) -> TestNetwork:
    """With an empty ledger at first, then with what the tests before wrote."""
    register_policies(fabric_network.fresh())
    return fabric_network


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    environment = {"GLASSBOX_LEDGER": "fabric", "GLASSBOX_ANCHOR_INTERVAL_S": "0.5"}
    pipeline = Pipeline(tmp_path_factory.mktemp("pipeline"), environment=environment)
    try:
        pipeline.start(role for role in ROLES if role != "committer")
        yield Site(pipeline)
    finally:
        pipeline.close()


@asynccontextmanager
async def ledger_of(network: TestNetwork, user: str = "User1") -> AsyncIterator[FabricLedger]:
    ledger = FabricLedger(network.profile(user), network.folder / f"pending-{user}.sqlite")
    try:
        yield ledger
    finally:
        await ledger.close()


def register_policies(network: TestNetwork) -> None:
    async def put() -> None:
        async with ledger_of(network, "Admin") as ledger:
            for policy in POLICIES:
                await ledger.register_policy(policy.document, rfc3339(0))

    asyncio.run(put())


async def digests(ledger: Ledger, names: Iterable[str]) -> dict[str, set[str]]:
    """Evaluation id -> the digest of the record that stands, none where none does."""
    standing = {name: await ledger.read(name) for name in names}
    return {name: {record_digest(record)} if record else set() for name, record in standing.items()}


def on_ledger(network: TestNetwork, names: Iterable[str]) -> dict[str, set[str]]:
    """As `digests`; each was written by one valid transaction."""

    async def look() -> dict[str, set[str]]:
        async with ledger_of(network) as ledger:
            found = await digests(ledger, names)
            for name in names:
                assert len(json.loads(await ledger.gateway.evaluate("History", name))) == 1
            return found

    return asyncio.run(look())


class Asked:
    """Requests of a test, one of them broken, and what came of them."""

    def __init__(self, site: Site, mark: str, read: Callable[[Callable[[Settled], bool], float], Settled]) -> None:
        self._site, self._mark, self._read = site, mark, read
        self.names: list[str] = []

    def publish(self, count: int = 10) -> None:
        new = [f"{self._mark}-{len(self.names) + n}" for n in range(count)]
        self._site.pipeline.publish(request(name) for name in new)
        self.names += new

    def publish_broken(self) -> None:
        self._site.pipeline.publish([request(f"{self._mark}-broken", query=" ")])

    def are_waiting(self) -> None:
        """Not all are answered within the time that something is away."""
        assert not self._all_in(self._read(self._all_in, AWAY_S))

    def _all_in(self, settled: Settled) -> bool:
        return settled.receipts.keys() >= set(self.names) and bool(settled.dead)

    def are_settled(self, network: TestNetwork) -> None:
        settled = self._read(self._all_in, 90)
        assert set(self.names) - settled.receipts.keys() == set()
        assert [letter["reason"] for letter in settled.dead.values()] == ["contract"]
        standing = on_ledger(network, self.names)
        assert {name: settled.digests[name] for name in self.names} == standing
        assert settled.receipts.keys().isdisjoint({f"{self._mark}-broken"})
        self._site.is_well()


@pytest.fixture
def asked(site: Site, request: pytest.FixtureRequest) -> Iterator[Asked]:
    mark = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))
    with site.pipeline.watching() as read:
        yield Asked(site, mark, read)


def test_a_wrong_channel_is_named(site: Site, network: TestNetwork, asked: Asked) -> None:
    site.commit_to({**network.environment(), "GLASSBOX_FABRIC_CHANNEL": "nowhere"})
    asked.publish()
    asked.publish_broken()
    site.is_in_trouble(r"channel nowhere.*check the names of channel and chaincode")
    site.commit_to(network.environment())
    asked.are_settled(network)


Switch = Callable[[TestNetwork], None]
OUTAGES: dict[str, tuple[Switch, Switch, str]] = {
    "peer": (
        lambda network: network.peers[0].stop(),
        lambda network: network.peers[0].start(),
        r"at the Fabric peer 127\.0\.0\.1:\d+: .*check that the peer, its orderer and the chaincode run",
    ),
    "orderer": (
        lambda network: setattr(network.orderer_faults, "down", True),
        lambda network: setattr(network.orderer_faults, "down", False),
        r"Submit at the Fabric peer .*7050.*check that the peer, its orderer and the chaincode run",
    ),
    "chaincode": (
        lambda network: network.chaincode.kill(),
        lambda network: network.chaincode.start(),
        r"Endorse at the Fabric peer .*chaincode.*check that the peer, its orderer and the chaincode run",
    ),
}
"""What goes, how it comes back, and what the committer says meanwhile."""


@pytest.mark.parametrize("what", OUTAGES)
def test_what_is_away_is_waited_for(site: Site, network: TestNetwork, asked: Asked, what: str) -> None:
    go, come, sentence = OUTAGES[what]
    site.commit_to(network.environment())
    site.pipeline.wait_ready("committer")
    asked.publish()
    asked.publish_broken()
    go(network)
    try:
        asked.publish()
        site.is_in_trouble(sentence)
        asked.are_waiting()
    finally:
        come(network)
    asked.are_settled(network)


def test_a_committer_killed_between_submit_and_acknowledge(site: Site, network: TestNetwork, asked: Asked) -> None:
    site.commit_to(network.environment())
    site.pipeline.wait_ready("committer")
    orderer = network.channel.orderer
    before = orderer.taken
    network.orderer_faults.commits.clear()
    try:
        asked.publish()
        asked.publish_broken()
        until(lambda: orderer.taken > before, 60, "a transaction was submitted")
        site.pipeline.kill("committer")
        assert site.on_their_way() > 0
    finally:
        network.orderer_faults.commits.set()
    submitted = orderer.taken - before
    site.pipeline.start_role("committer")
    asked.are_settled(network)
    assert submitted == 1


def test_an_expired_certificate_is_named(site: Site, network: TestNetwork, asked: Asked) -> None:
    environment = network.environment(network.enrol("Retired", expired=True))
    site.commit_to(environment)
    asked.publish()
    asked.publish_broken()
    site.is_in_trouble(r"this client's certificate expired at \d{4}-\d\d-\d\d \d\d:\d\d UTC.*have Org1MSP issue a new")
    asked.are_waiting()
    site.pipeline.kill("committer", signal.SIGTERM)
    network.enrol("Retired")
    site.commit_to(environment)
    asked.are_settled(network)


def test_an_unregistered_policy_is_for_an_administrator(
    site: Site, network: TestNetwork, asked: Asked, tmp_path: Path
) -> None:
    (tmp_path / "glassbox.toml").write_text("[policy.strict]\ndeadline_s = 7\n")
    environment = {**network.environment(), "GLASSBOX_CONFIG": str(tmp_path / "glassbox.toml")}
    site.commit_to(environment)
    committer = site.pipeline.roles["committer"]
    until(lambda: not committer.running, 60, "the committer ends")
    assert committer.exit_code == 2
    assert committer.last_line() == (
        "glassbox: not on the ledger: the policies strict; let an administrator run `glassbox policy register`"
    )
    done = site.pipeline.command("policy", "register", environment=environment)
    assert done.returncode == 0, done.stderr
    site.commit_to(environment)
    asked.publish()
    asked.publish_broken()
    asked.are_settled(network)


async def test_a_policy_that_only_the_other_ledger_has_is_for_an_administrator_too(
    network: TestNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "glassbox.toml").write_text("[policy.only_here]\ndeadline_s = 9\n")
    for name, value in network.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GLASSBOX_FABRIC_ADMIN_IDENTITY")
    monkeypatch.setenv("GLASSBOX_LEDGER", "merkle,fabric")
    monkeypatch.setenv("GLASSBOX_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GLASSBOX_CONFIG", str(tmp_path / "glassbox.toml"))
    settings = Settings.load()
    log = MerkleLog.committer(settings.ledger_path, settings.signing_key())
    await log.register_policy(settings.policies()["only_here"].document, rfc3339(0))
    await log.close()
    with pytest.raises(CommandError, match="the policies only_here; let an administrator"):
        await open_committer(settings, lambda trouble: pytest.fail(trouble))
    with pytest.raises(CommandError, match=r"set GLASSBOX_FABRIC_ADMIN_IDENTITY to an administrator's MSP folder"):
        await register_on_fabric(settings, settings.policies().values())


def test_both_ledgers_agree_after_a_committer_was_killed_between_them(
    site: Site, network: TestNetwork, asked: Asked
) -> None:
    pipeline = site.pipeline
    site.commit_to({**network.environment(), "GLASSBOX_LEDGER": "merkle,fabric"})
    pipeline.wait_ready("committer")
    register(pipeline.broker, POLICIES)  # the Merkle log is new
    network.orderer_faults.commits.clear()
    try:
        asked.publish()
        asked.publish_broken()
        until(lambda: any(merkle_digests(pipeline, asked.names).values()), 60, "records are in the Merkle log")
        pipeline.kill("committer")
    finally:
        network.orderer_faults.commits.set()
    pipeline.start_role("committer")
    asked.publish()
    asked.are_settled(network)
    assert merkle_digests(pipeline, asked.names) == on_ledger(network, asked.names)
    until(lambda: is_anchored(pipeline, network), 30, "the newest checkpoint is anchored")


def merkle_digests(pipeline: Pipeline, names: Iterable[str]) -> dict[str, set[str]]:
    async def look() -> dict[str, set[str]]:
        log = MerkleLog.reader(pipeline.folder / "data" / "ledger")
        try:
            return await digests(log, names)
        finally:
            await log.close()

    return asyncio.run(look())


def is_anchored(pipeline: Pipeline, network: TestNetwork) -> bool:
    async def look() -> bool:
        log = MerkleLog.reader(pipeline.folder / "data" / "ledger")
        try:
            async with ledger_of(network) as ledger:
                anchored, newest = await compare(log, ledger)
                return anchored == parse(newest).checkpoint.size
        finally:
            await log.close()

    return asyncio.run(look())


def test_an_organisation_that_must_endorse_is_away(
    site: Site, fabric_network_of_two: TestNetwork, asked: Asked
) -> None:
    network = fabric_network_of_two.fresh()
    register_policies(network)
    site.commit_to(network.environment())
    site.pipeline.wait_ready("committer")
    asked.publish()
    asked.publish_broken()
    network.peers[1].stop()
    try:
        asked.publish()
        site.is_in_trouble(r"Endorse at the Fabric peer .*Org2MSP|Endorse at the Fabric peer .*connection refused")
        asked.are_waiting()
    finally:
        network.peers[1].start()
    asked.are_settled(network)


def test_the_demo_keeps_its_records_on_fabric(fabric_network: TestNetwork, tmp_path: Path) -> None:
    """Last of its module: it begins with an empty ledger, and registers the policies itself."""
    network = fabric_network.fresh()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GLASSBOX_")}
    done = subprocess.run(
        [sys.executable, "-m", "glassbox.cli", "demo", "--ledger", "fabric"],
        env={**environment, **network.environment(), "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    proofs = re.search(r"(\d+) of (\d+) proofs hold: endorsed by Org1MSP in (\d+) Fabric transactions", done.stdout)
    assert proofs is not None, done.stdout
    assert proofs[1] == proofs[2]
    assert int(proofs[1]) > 35
    assert len(re.findall("^dead letter: line", done.stdout, re.MULTILINE)) == 2
    assert 0 < int(proofs[3]) <= network.channel.ledger.height
    assert list(tmp_path.iterdir()) == []
