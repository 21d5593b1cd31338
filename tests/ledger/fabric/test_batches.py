"""The pure parts of batches, and what an installation without the extra says."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.fabric.batches import Batch, Item, answers, split, waves
from ledger.port import (
    LedgerUnavailable,
)

IDS = st.sampled_from("abcdef")
RECORDS = st.lists(st.builds(lambda i, s: {"evaluation_id": i, "supersedes": s}, IDS, st.none() | IDS), max_size=20)


@given(RECORDS)
def test_waves_keep_order_and_touch_nothing_twice(records: list[dict[str, Any]]) -> None:
    found = waves(Item(n, record, b"") for n, record in enumerate(records))
    assert sorted(item.number for wave in found for item in wave) == list(range(len(records)))
    wave_of = {item.number: number for number, wave in enumerate(found) for item in wave}
    for wave in found:
        ids = [item.evaluation_id for item in wave]
        assert len(ids) == len(set(ids))
    for later, record in enumerate(records):
        for earlier in range(later):
            if records[earlier]["evaluation_id"] in (record["evaluation_id"], record["supersedes"]):
                assert wave_of[earlier] < wave_of[later]


@given(st.integers(0, 40), st.integers(1, 10))
def test_batches_hold_so_many_and_all(count: int, most: int) -> None:
    wave = [
        Item(n, {"evaluation_id": f"e-{n}", "kind": "run" if n % 7 == 0 else "scorecard"}, b"{}") for n in range(count)
    ]
    batches = split(wave, most)
    assert sorted(item.number for batch in batches for item in batch.items) == list(range(count))
    assert all(len(b.items) <= (most if b.function == "CommitScorecards" else 1) for b in batches)


def test_a_batch_is_cut_near_a_mebibyte() -> None:
    wave = [Item(n, {"evaluation_id": f"e-{n}", "kind": "scorecard"}, b"x" * 300_000) for n in range(7)]
    assert [len(batch.items) for batch in split(wave)] == [3, 3, 1]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b'[{"evaluation_id":"other","result":"created"}]',
        b'[{"evaluation_id":"e","result":"done"}]',
        b'[{"evaluation_id":"e","result":"refused"}]',
        b'[{"evaluation_id":"e","result":"created"},{"evaluation_id":"e","result":"created"}]',
    ],
)
def test_an_answer_of_another_version_is_trouble(raw: bytes) -> None:
    with pytest.raises(LedgerUnavailable, match="install the chaincode that belongs to it"):
        answers(Batch("CommitScorecards", (Item(0, {"evaluation_id": "e"}, b"{}"),)), raw)


# Without the extra


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_port_and_the_merkle_log_do_not_import_grpc() -> None:
    code = "import sys, ledger.port, ledger.merkle_log; print({'grpc', 'fabric_protos'} & set(sys.modules))"
    assert python(code).stdout == "set()\n"


@pytest.mark.parametrize("package", ["fabric_protos", "google.rpc"])
def test_without_the_extra_a_sentence_says_what_to_install(package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from ledger.port import LedgerError\n"
        "try:\n    import ledger.fabric.ledger\n"
        "except LedgerError as error:\n    print(error)"
    )
    done = python(code)
    assert "pip install 'glassbox[fabric]'" in done.stdout, done.stderr
