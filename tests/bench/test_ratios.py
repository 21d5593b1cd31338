"""Speed as ratios within one run: what GlassBox does against what its libraries do by themselves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ledger.checkpoint import Signer
from ledger.merkle_log import MerkleLog
from tests.streams.events import POLICY
from tests.streams.test_committer import scorecard

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


async def test_a_batch_costs_less_than_its_records_one_by_one(tmp_path: Path) -> None:
    records = [scorecard(f"e{n}").record for n in range(200)]
    seconds = {}
    for size in (1, 100):
        log = MerkleLog.committer(tmp_path / str(size), Signer.generate("log.bench"))
        await log.register_policy(POLICY.document, "2026-01-01T00:00:00.000Z")
        began = time.perf_counter()
        for start in range(0, len(records), size):
            await log.append(records[start : start + size])
        seconds[size] = time.perf_counter() - began
        await log.close()
    print(f"\nledger: a record in a batch of 100 takes {seconds[1] / seconds[100]:.1f} times less time than alone")
    assert seconds[100] < seconds[1]
