"""Records per second on Fabric: the test peer, and a real network where its tools are; and how they differ in words."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ledger.checkpoint import Signer
from ledger.fabric.ledger import FabricLedger
from ledger.merkle_log import MerkleLog
from ledger.port import Ledger
from tests.ledger.fabric import scenarios
from tests.ledger.fabric.fixtures import chaincode_binary
from tests.ledger.fabric.native import BIN, TO_SET, NativeNetwork
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.peer.orderer import BatchSize
from tests.ledger.fabric.test_network import SwitchedNetwork
from tests.ledger.records import CREATED_AT, POLICY, scorecard

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

__all__ = ["chaincode_binary"]

BATCHES = {1: 160, 10: 800, 100: 3200}
"""Records of a transaction -> records written."""

IN_FLIGHT = 16
BLOCK = 0.2
"""Seconds that an orderer waits for a block to fill; 2 by default on a real network."""


@pytest.fixture
def networks(chaincode_binary: Path, tmp_path: Path) -> Iterator[dict[str, TestNetwork | NativeNetwork]]:
    with ExitStack() as stack:
        peer = TestNetwork(chaincode_binary, tmp_path / "peer", batches=BatchSize(timeout=BLOCK, messages=500))
        found: dict[str, TestNetwork | NativeNetwork] = {"test peer": peer}
        if os.environ.get(BIN):
            timeout = f"{round(BLOCK * 1000)}ms"
            found["real"] = NativeNetwork(chaincode_binary, tmp_path / "one", batch_timeout=timeout)
            found["real, 2 orgs"] = NativeNetwork(chaincode_binary, tmp_path / "two", orgs=2, batch_timeout=timeout)
        for network in found.values():
            stack.enter_context(network)
        yield found


async def rate(ledger: Ledger, count: int, at_once: int) -> float:
    """Records per second of appends of so many records."""
    records = [scorecard(f"e-{n}") for n in range(count)]
    began = time.perf_counter()
    for start in range(0, count, at_once):
        assert all(made.result == "created" for made in await ledger.append(records[start : start + at_once]))
    return count / (time.perf_counter() - began)


async def on_fabric(network: TestNetwork | NativeNetwork, pending: Path, batch: int, count: int) -> float:
    fresh = network.fresh()
    admin = FabricLedger(fresh.profile("Admin"), pending.with_suffix(".admin"))
    ledger = FabricLedger(fresh.profile(), pending, in_flight=IN_FLIGHT, batch=batch)
    try:
        await admin.register_policy(POLICY.document, CREATED_AT)
        return await rate(ledger, count, count)
    finally:
        await ledger.close()
        await admin.close()


async def on_merkle(folder: Path, batch: int, count: int) -> float:
    log = MerkleLog.committer(folder, Signer.generate("log.bench"))
    try:
        await log.register_policy(POLICY.document, CREATED_AT)
        return await rate(log, count, batch)
    finally:
        await log.close()


async def test_records_per_second(networks: dict[str, TestNetwork | NativeNetwork], tmp_path: Path) -> None:
    rates: dict[str, dict[int, float]] = {name: {} for name in ["merkle", *networks]}
    for batch, count in BATCHES.items():
        rates["merkle"][batch] = await on_merkle(tmp_path / f"merkle-{batch}", batch, count)
        for name, network in networks.items():
            rates[name][batch] = await on_fabric(network, tmp_path / f"{name} {batch}", batch, count)
    print(f"\nrecords/s, {IN_FLIGHT} transactions in flight, blocks of {BLOCK} s (in brackets: times batch 1)")
    print(f"{'records a transaction':<22}" + "".join(f"{batch:>16}" for batch in BATCHES))
    for name, by_batch in rates.items():
        cells = (f"{found:,.0f} ({found / by_batch[1]:.1f})" for found in by_batch.values())
        print(f"{name:<22}" + "".join(f"{cell:>16}" for cell in cells))
    if BIN not in os.environ:
        print(TO_SET)
    assert all(rates[name][1] < rates[name][100] for name in networks)


def test_what_differs_in_words(chaincode_binary: Path, tmp_path: Path) -> None:
    """Prints the sentences in which a real network and the test peer differ; what they mean is held in tests."""
    if not os.environ.get(BIN):
        pytest.skip(TO_SET)
    with (
        NativeNetwork(chaincode_binary, tmp_path / "real") as real,
        SwitchedNetwork(chaincode_binary, tmp_path / "test-peer") as test_peer,
    ):
        for world in (real, test_peer):
            asyncio.run(scenarios.register_policy(world))
        steps = 0
        differing: dict[tuple[str, str], str] = {}
        for name in scenarios.SCENARIOS:
            pair = [asyncio.run(scenarios.play(name, world)) for world in (real, test_peer)]
            steps += len(pair[0])
            for one, other in zip(*pair, strict=True):
                texts = scenarios.masked(one.text), scenarios.masked(other.text)
                if texts[0] != texts[1]:
                    differing.setdefault(texts, name)
    print(f"\n{len(scenarios.SCENARIOS)} scenarios, {steps} steps; in other words:")
    for (said, test_said), name in differing.items():
        print(f"{name}\n  real       {said}\n  test peer  {test_said}")
