"""`glassbox replay submit` and `evaluate --judged` on real processes, with judges that answer at once."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassbox.replay.store import Run
from glassbox.replay.suite import load_suite
from ledger.merkle_log import MerkleLog
from tests.cli.conftest import Command
from tests.cli.judged import scorecards, settings_of
from tests.pipeline import Pipeline, until
from tests.replay.shipped import run_version

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    made = Pipeline(tmp_path, judges="trivial")
    try:
        made.start()
        yield made
    finally:
        made.close()


async def size(folder: Path) -> int:
    log = MerkleLog.reader(settings_of(folder).ledger_path)
    found = await log.find("", 1000)
    await log.close()
    return len(found)


def test_submitting_a_run_twice_changes_nothing(
    command: Command, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    monkeypatch.setenv("GLASSBOX_BROKER", pipeline.broker.address)
    monkeypatch.setenv("GLASSBOX_DATA_DIR", str(data))
    run = run_version(tmp_path / "run", load_suite("tidewell"), "v2")
    digest = Run.open(run).manifest.digest()

    code, out, err = command("replay", "submit", "run", "--wait", "--json")
    assert code == 0, err
    summary = json.loads(out.splitlines()[-1])["summary"]
    assert (summary["evaluations"], summary["unanswered"]) == (26, 0)
    until(lambda: f"run:{digest}" in asyncio.run(scorecards(data)), 20, "the run's record")
    standing = asyncio.run(size(data))

    code, out, err = command("replay", "submit", "run", "--wait")
    assert code == 0, err
    assert f"{digest} is in the log, for the ledger" in out
    assert "26 requests, 26 evaluations" in out
    assert asyncio.run(size(data)) == standing

    code, out, err = command("replay", "evaluate", "run", "--judged", "--json")
    assert code == 0, err
    assert json.loads(out)["figures"]["judged_trust"]["n"] == 26
    code, _, err = command("replay", "evaluate", "run", "--judged", "--policy", "direct")
    assert code == 2
    assert "no scorecard of this run is on the ledger" in err
