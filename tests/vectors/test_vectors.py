"""The golden vectors hold for the code, and the files are what their script writes."""

import struct
from typing import Any

import pytest

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex, strict_loads
from glassbox.contract.composite import compose
from glassbox.contract.policy import load_policies
from glassbox.contract.record import (
    RecordError,
    check_policy,
    check_record,
    evidence_digest,
    policy_digest,
    record_bytes,
    record_digest,
)
from tests.vectors.generate import FOLDER, files, load, main
from tests.vectors.record import edited

CANONICAL, COMPOSITE, RECORD, POLICY = map(load, ("canonical.json", "composite.json", "record.json", "policy.json"))


@pytest.mark.parametrize(("name", "text"), files(), ids=lambda part: part[:20].strip())
def test_files_are_what_the_script_writes(name: str, text: str) -> None:
    assert (FOLDER / name).read_text() == text, "run python -m tests.vectors.generate"


def test_check(capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.vectors.generate.FOLDER", tmp_path)
    assert main(["--check"]) == 1
    assert "composite.json differs" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert (tmp_path / "record.json").read_text() == (FOLDER / "record.json").read_text()


def test_numbers() -> None:
    for vector in CANONICAL["numbers"]:
        (number,) = struct.unpack(">d", bytes.fromhex(vector["ieee754"]))
        assert canonical(number).decode() == vector["canonical"]


@pytest.mark.parametrize("vector", CANONICAL["values"], ids=lambda v: v["name"])
def test_values(vector: Any) -> None:
    made = canonical(strict_loads(vector["json"].encode()))
    assert made.decode() == vector["canonical"]
    assert sha256_hex(made) == vector["digest"]
    assert canonical(strict_loads(made)) == made


@pytest.mark.parametrize("vector", CANONICAL["refused"], ids=lambda v: v["name"])
def test_refused_bytes(vector: Any) -> None:
    with pytest.raises(CanonicalError) as caught:
        strict_loads(bytes.fromhex(vector["hex"]))
    assert caught.value.field == vector["field"]
    assert vector["reason"] in caught.value.reason


@pytest.mark.parametrize("case", COMPOSITE["cases"], ids=lambda case: case["name"])
def test_composite(case: Any) -> None:
    made = compose(case["parts"], COMPOSITE["policies"][case["policy"]])
    made["parts"] = {row["part"]: [row["judge"], row["meets_target"]] for row in made["parts"]}
    assert made == case["expect"]


def test_composite_covers_every_outcome_and_reason() -> None:
    expected = [case["expect"] for case in COMPOSITE["cases"]]
    assert {e["outcome"] for e in expected} == {"pass", "review", "fail", "incomplete"}
    assert {reason.split(":")[0] for e in expected for reason in e["reasons"]} == {
        "veto",
        "beyond_reach",
        "failed",
        "no_scored_part",
        "low_coverage",
        "abstained",
        "below_threshold",
        "review",
    }


@pytest.mark.parametrize("vector", RECORD["accepted"], ids=lambda v: v["name"])
def test_accepted_records(vector: Any) -> None:
    check_record(vector["record"], RECORD["policies"].get(vector["policy"]))
    assert record_bytes(vector["record"]).decode() == vector["bytes"]
    assert record_digest(vector["record"]) == vector["digest"]
    assert strict_loads(vector["bytes"].encode()) == vector["record"]


@pytest.mark.parametrize(
    "edit", RECORD["refused"], ids=lambda e: f"{e['base']} {e['at']} {e.get('set', 'removed')}"[:60]
)
def test_refused_records(edit: Any) -> None:
    (base,) = (vector for vector in RECORD["accepted"] if vector["name"] == edit["base"])
    record = edited(base["record"], edit)
    assert canonical(record) != canonical(base["record"])
    with pytest.raises(RecordError) as caught:
        check_record(record, RECORD["policies"].get(base["policy"]))
    assert caught.value.field == edit["field"]


def test_evidence_digests() -> None:
    for vector in RECORD["evidence"]:
        assert evidence_digest(vector["by_kind"]) == vector["digest"]


def test_shipped_policies() -> None:
    policies = load_policies("")
    assert [vector["name"] for vector in POLICY["shipped"]] == list(policies)
    for vector in POLICY["shipped"]:
        document = strict_loads(vector["bytes"].encode())
        assert policies[vector["name"]].document == document
        assert policies[vector["name"]].digest == policy_digest(document) == vector["digest"]


@pytest.mark.parametrize("vector", POLICY["accepted"], ids=lambda v: v["name"])
def test_accepted_policies(vector: Any) -> None:
    document = strict_loads(vector["bytes"].encode())
    check_policy(document)
    assert canonical(document).decode() == vector["bytes"]
    assert policy_digest(document) == vector["digest"]


@pytest.mark.parametrize("edit", POLICY["refused"], ids=lambda e: f"{e['at']} {e.get('set', 'removed')}"[:60])
def test_refused_policies(edit: Any) -> None:
    (base,) = (vector for vector in POLICY["shipped"] if vector["name"] == edit["base"])
    with pytest.raises(RecordError) as caught:
        check_policy(edited(strict_loads(base["bytes"].encode()), edit))
    assert caught.value.field == edit["field"]
