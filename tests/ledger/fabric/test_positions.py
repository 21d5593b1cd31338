"""The file that remembers the last event."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.fabric.ledger import FabricLedger
from ledger.fabric.positions import PositionFile
from ledger.port import LedgerUnavailable
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.records import CREATED_AT, POLICY, scorecard


@given(st.integers(0, 2**63), st.text("0123456789abcdef", min_size=64, max_size=64))
def test_what_was_saved_is_loaded(tmp_path_factory: pytest.TempPathFactory, block: int, tx_id: str) -> None:
    path = tmp_path_factory.mktemp("positions") / "events.json"
    PositionFile(path).save((block, tx_id))
    assert PositionFile(path).load() == (block, tx_id)
    assert [item.name for item in path.parent.iterdir()] == ["events.json"]


def test_nothing_was_read_before_the_first(tmp_path: Path) -> None:
    assert PositionFile(tmp_path / "events.json").load() is None


@pytest.mark.parametrize("text", ["", "7", "[1]", "{}", '["x", "y"]', "[null, null]"])
def test_another_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "events.json"
    path.write_text(text)
    with pytest.raises(LedgerUnavailable, match=r"events\.json does not say .*delete it to read them all again"):
        PositionFile(path).load()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match=r"events\.json cannot be written \(No such file"):
        PositionFile(tmp_path / "none" / "events.json").save((1, "ab"))


async def test_a_reader_that_dies_goes_on_with_the_next_event(fabric: TestNetwork, tmp_path: Path) -> None:
    ledger = FabricLedger(fabric.profile("Admin"), tmp_path / "pending.sqlite3")
    await ledger.register_policy(POLICY.document, CREATED_AT)
    for n in range(4):
        await ledger.append([scorecard(f"e-{n}")])
    seen: list[str] = []
    for _ in range(5):  # lives, each of one event
        positions = PositionFile(tmp_path / "events.json")
        events = ledger.events(positions.load())
        event = await anext(events)
        seen += event.evaluation_ids
        positions.save(event.position)
        await events.aclose()
    assert seen == [f"policy:{POLICY.digest}", "e-0", "e-1", "e-2", "e-3"]
    await ledger.close()
