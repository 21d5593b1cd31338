"""GlassBox on a real Fabric network: what every ledger does, what goes wrong there, how like it the test peer is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger.fabric.gateway import Deadlines
from ledger.fabric.ledger import FabricLedger
from ledger.fabric.profile import Profile
from ledger.fabric.trust import Trust
from ledger.port import Ledger, LedgerUnavailable, Receipt
from ledger.verify import verify_bundle
from tests.ledger import test_ledger_behaviour as behaviour
from tests.ledger.fabric import scenarios
from tests.ledger.fabric.native import BIN, TO_SET, NativeNetwork
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.records import CREATED_AT, POLICY, scorecard
from tests.ledger.test_ledger_behaviour import Backend, bundle, ledger, on_fabric, opener, proven, receipts

pytestmark = [pytest.mark.fabric_network, pytest.mark.timeout(300)]

__all__ = ["ledger", "opener", "proven"]  # the behaviour suite's fixtures, over the backend below
globals().update({name: test for name, test in vars(behaviour).items() if name.startswith("test_")})

SHORT = Deadlines(evaluate=5, endorse=10, submit=5, commit=20, known=3)


@pytest.fixture(scope="session")
def tools() -> None:
    if not os.environ.get(BIN):
        pytest.skip(TO_SET)


@pytest.fixture(scope="session")
def network(tools: None, chaincode_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeNetwork]:
    with NativeNetwork(chaincode_binary, tmp_path_factory.mktemp("fabric") / "one") as up:
        yield up


@pytest.fixture(scope="session")
def network_of_two(
    tools: None, chaincode_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NativeNetwork]:
    with NativeNetwork(chaincode_binary, tmp_path_factory.mktemp("fabric") / "two", orgs=2) as up:
        yield up


class Committer(FabricLedger):
    """Writes as User1; only policies are registered as Admin."""

    def __init__(self, network: NativeNetwork, folder: Path, *, org: int = 1) -> None:
        super().__init__(network.profile(org=org), folder / f"pending-{org}", deadlines=SHORT)
        self._admin = FabricLedger(network.profile("Admin", org=org), folder / f"admin-{org}", deadlines=SHORT)

    async def register_policy(self, policy: Mapping[str, Any], created_at: str) -> Receipt:
        return await self._admin.register_policy(policy, created_at)

    async def close(self) -> None:
        await self._admin.close()
        await super().close()


@pytest.fixture(params=["network", "network_of_two"])
def backend(request: pytest.FixtureRequest) -> Backend:
    fresh = request.getfixturevalue(request.param).fresh()

    @asynccontextmanager
    async def open_committer(folder: Path) -> AsyncIterator[Ledger]:
        async with committing(fresh, folder) as made:
            yield made

    return replace(on_fabric(fresh), open=open_committer)


@asynccontextmanager
async def committing(network: NativeNetwork, folder: Path, *, org: int = 1) -> AsyncIterator[Committer]:
    made = Committer(network, folder, org=org)
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def reading(profile: Profile, folder: Path) -> AsyncIterator[FabricLedger]:
    made = FabricLedger(profile, folder / "reading", deadlines=SHORT)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def committer(network: NativeNetwork, tmp_path: Path) -> AsyncIterator[Committer]:
    """On one organisation's network, with an empty ledger but for the policy."""
    async with committing(network.fresh(), tmp_path) as made:
        await made.register_policy(POLICY.document, CREATED_AT)
        yield made


async def until_written(ledger: Ledger, *ids: str) -> list[Receipt]:
    """As the committer of the pipeline: in place, until the ledger is back."""
    async with asyncio.timeout(60):
        while True:
            try:
                return receipts(await ledger.append([scorecard(name) for name in ids]))
            except LedgerUnavailable:
                await asyncio.sleep(0.2)


async def written(ledger: FabricLedger, count: int) -> list[str]:
    """The ids of the first `count` records that the events tell of, policies aside."""
    ids: list[str] = []
    async with asyncio.timeout(20):
        async for event in ledger.events():
            if event.function != "RegisterPolicy":
                ids += event.evaluation_ids
            if len(ids) >= count:
                return ids
    raise AssertionError("events do not end")


async def test_a_writer_registers_no_policy(network: NativeNetwork, tmp_path: Path) -> None:
    async with reading(network.fresh().profile(), tmp_path) as user:
        with pytest.raises(LedgerUnavailable, match="FORBIDDEN"):
            await user.register_policy(POLICY.document, CREATED_AT)


async def test_what_an_absent_orderer_did_not_take_is_written_once_when_it_is_back(
    network: NativeNetwork, committer: Committer
) -> None:
    network.stop("orderer")
    try:
        with pytest.raises(LedgerUnavailable):
            await committer.append([scorecard("e-1")])
        assert await committer.read("e-1") is None
    finally:
        network.start("orderer")
    await until_written(committer, "e-1", "e-2")
    assert sorted(await written(committer, 2)) == ["e-1", "e-2"]


@pytest.mark.parametrize("process", ["chaincode1", "peer1"])
async def test_work_goes_on_when_a_process_is_back(network: NativeNetwork, committer: Committer, process: str) -> None:
    await until_written(committer, "before")
    network.stop(process)
    try:
        with pytest.raises(LedgerUnavailable):
            await committer.append([scorecard("during")])
    finally:
        network.start(process)
    (made,) = await until_written(committer, "during")
    assert made.result == "created"
    assert await committer.read("before") == scorecard("before")


async def test_a_wrong_channel_is_said(network: NativeNetwork, tmp_path: Path) -> None:
    async with reading(replace(network.profile(), channel="nowhere"), tmp_path) as lost:
        with pytest.raises(LedgerUnavailable, match="names of channel and chaincode"):
            await lost.append([scorecard("e")])
        with pytest.raises(LedgerUnavailable, match="names of channel and chaincode"):
            await lost.read("e")


async def test_an_expired_certificate_is_said(network: NativeNetwork, tmp_path: Path) -> None:
    late = network.enrol("Late", expired=True)
    async with reading(network.profile(late), tmp_path) as expired:
        with pytest.raises(LedgerUnavailable, match="certificate expired at"):
            await expired.append([scorecard("e")])


async def test_both_organisations_endorse_and_each_reads_what_the_other_wrote(
    network_of_two: NativeNetwork, tmp_path: Path
) -> None:
    network = network_of_two.fresh()
    async with committing(network, tmp_path) as first, committing(network, tmp_path, org=2) as second:
        await first.register_policy(POLICY.document, CREATED_AT)
        await until_written(first, "of-1")
        (again,) = await until_written(second, "of-1")
        (own,) = await until_written(second, "of-2")
        assert (again.result, own.result) == ("exists", "created")
        proof = await first.prove("of-2")
    assert proof is not None
    roots = {one.msp_id: [one.ca.root.certificate_pem] for one in network.organizations}
    assert all(step.holds for step in verify_bundle(bundle(proof), [], Trust(roots, endorsements=2)))
    other_root = {**roots, "Org2MSP": roots["Org1MSP"]}
    assert not all(step.holds for step in verify_bundle(bundle(proof), [], Trust(other_root, endorsements=2)))


async def test_one_of_two_peers_serves_readers_but_writes_nothing(
    network_of_two: NativeNetwork, tmp_path: Path
) -> None:
    network = network_of_two.fresh()
    async with committing(network, tmp_path) as committer:
        await committer.register_policy(POLICY.document, CREATED_AT)
        await until_written(committer, "before")
        network.stop("peer1")
        try:
            assert await committer.read("before") == scorecard("before")
            with pytest.raises(LedgerUnavailable):
                await committer.append([scorecard("during")])
        finally:
            network.start("peer1")
        (made,) = await until_written(committer, "during")
        assert made.result == "created"


async def test_peers_may_ask_clients_for_a_tls_certificate(tools: None, chaincode_binary: Path, tmp_path: Path) -> None:
    with NativeNetwork(chaincode_binary, tmp_path / "mutual", mutual_tls=True) as network:
        async with committing(network, tmp_path) as committer:
            await committer.register_policy(POLICY.document, CREATED_AT)
            await until_written(committer, "e")
        async with reading(replace(network.profile(), client_tls=None), tmp_path) as bare:
            with pytest.raises(LedgerUnavailable):
                await bare.read("e")


async def test_a_network_keeps_its_ledger_and_its_processes_to_itself(
    tools: None, chaincode_binary: Path, tmp_path: Path
) -> None:
    with NativeNetwork(chaincode_binary, tmp_path / "kept") as network:
        async with committing(network, tmp_path) as committer:
            await committer.register_policy(POLICY.document, CREATED_AT)
            await until_written(committer, "e")
        with pytest.raises(RuntimeError, match=r"runs already \(orderer, peer1, chaincode1\): down ends it"):
            network.command("up")
        network.command("down")
        with pytest.raises(RuntimeError, match="exits 1"):
            network.command("status")
        with pytest.raises(RuntimeError, match="another --orgs: down --delete removes it"):
            network.command("up", "--orgs", "2")
        network.command("up")
        async with reading(network.profile(), tmp_path) as again:
            assert await again.read("e") == scorecard("e")


class SwitchedNetwork(TestNetwork):
    """The test network, whose processes stop and start by the same names."""

    def stop(self, process: str) -> None:
        self._switches[process][0]()

    def start(self, process: str) -> None:
        self._switches[process][1]()

    @property
    def _switches(self) -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
        def orderer(down: bool) -> None:
            self.orderer_faults.down = down

        return {
            "orderer": (lambda: orderer(True), lambda: orderer(False)),
            "chaincode1": (self.chaincode.kill, self.chaincode.start),
        }


@pytest.fixture(scope="module")
def worlds(
    network: NativeNetwork, chaincode_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, scenarios.World]]:
    """A real network and the test network, the ledger of each empty but for the policy."""

    def prepared(world: scenarios.World) -> scenarios.World:
        asyncio.run(scenarios.register_policy(world))
        return world

    with SwitchedNetwork(chaincode_binary, tmp_path_factory.mktemp("test-peer")) as test_peer:
        yield {"real": prepared(network.fresh()), "test peer": prepared(test_peer)}


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_the_test_peer_answers_as_a_real_one(name: str, worlds: dict[str, scenarios.World]) -> None:
    seen = {of: asyncio.run(scenarios.play(name, world)) for of, world in worlds.items()}
    assert [scenarios.masked(step.what) for step in seen["test peer"]] == [
        scenarios.masked(step.what) for step in seen["real"]
    ]
