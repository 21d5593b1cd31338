"""The published schemas say what the code does: they accept what it takes and refuse what it refuses for its shape."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from glassbox.contract.policy import PolicyError, load_policies
from glassbox.contract.record import RecordError, check_record
from glassbox.contract.schemas import main, schemas
from tests.contract.builders import ENTRIES, POLICIES, RECEIPT, RESULTS, TASK
from tests.contract.test_policy import WRONG
from tests.contract.test_request import BAD, SOUND
from tests.vectors.generate import load
from tests.vectors.record import edited

RECORD = load("record.json")
ROOT = Path(__file__).parents[2]
SCHEMAS = schemas()
VALIDATORS = {name.removesuffix(".json"): Draft202012Validator(schema) for name, schema in SCHEMAS.items()}


def accepts(name: str, value: Any) -> bool:
    return bool(VALIDATORS[name].is_valid(value))


# --- the files


def test_files_are_what_the_models_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(ROOT / "docs" / "schemas")]) == 0, capsys.readouterr().err
    assert {path.name for path in (ROOT / "docs" / "schemas").glob("*.json")} >= SCHEMAS.keys()


def test_check_names_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "new")]) == 0
    assert main(["--check", str(tmp_path / "new")]) == 0
    (tmp_path / "new" / "claim.json").write_text("{}")
    assert main([str(tmp_path / "new"), "--check"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "claim.json" in line


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_is_a_schema_that_stands_alone(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:glassbox:{name.removesuffix('.json')}:1"
    defined = {f"#/$defs/{key}" for key in schema.get("$defs", {})}
    assert {node["$ref"] for node in nodes(schema) if "$ref" in node} == defined, "all that is used, and no more"


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_object_and_field_has_words(name: str) -> None:
    schema = SCHEMAS[name]
    for inner in (schema, *schema.get("$defs", {}).values()):
        assert inner["description"]
        for field in inner.get("properties", {}).values():
            assert field["description"]


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(item)


# --- requests

FULL = {
    **SOUND,
    "evaluation_id": "e-1",
    "session_id": "s",
    "model": {"provider": "openai", "name": "gpt-x"},
    "retrieval_strategy": "hybrid",
    "reference_answer": "1894",
    "retrieved_entities": ["Tower Bridge"],
    "chunk_scores": [0.5, 1],
    "source_documents": ["a", {"id": "d", "text": "b"}],
    "policy": "rag",
    "metadata": {"run": "7"},
    "schema_version": "1.2",
    "unknown": [1, 2],
}
BEYOND_A_SCHEMA = {
    *("scores too few", "scores too many", "score given twice"),  # two fields at once
    "unknown policy",  # the configuration
    *("duplicated key", "surrogate key", "lone surrogate", "surrogate in a passage", "nul"),  # the bytes, not the value
    *("score NaN", "score infinite", "huge integer", "too deep", "too large"),
    "id with a newline",  # Python's $ matches before a last newline; ECMAScript's does not
}


@pytest.mark.parametrize("request_", [SOUND, FULL, {**SOUND, **dict.fromkeys(("model", "chunk_scores", "metadata"))}])
def test_sound_requests(request_: Any) -> None:
    assert accepts("request", request_)


def test_refused_requests() -> None:
    for name, (raw, _, _) in BAD.items():
        try:
            document = json.loads(raw or b"")
        except ValueError:
            continue
        if name not in ("duplicated key", "surrogate key"):  # those lack the mandatory fields as well
            assert accepts("request", document) is (name in BEYOND_A_SCHEMA), name


# --- messages


def file_of(message: BaseModel) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", type(message).__name__).lower()


MESSAGES = [(file_of(message), message) for message in (*RESULTS, *ENTRIES, TASK, RECEIPT)]


@pytest.mark.parametrize(("name", "message"), MESSAGES, ids=[name for name, _ in MESSAGES])
def test_messages(name: str, message: BaseModel) -> None:
    document = json.loads(message.model_dump_json())
    assert accepts(name, document)
    assert not accepts(name, {**document, "note": "x"})
    assert not accepts(name, [document])
    for key in SCHEMAS[f"{name}.json"]["required"]:
        assert not accepts(name, {k: v for k, v in document.items() if k != key}), key
    for _, other in MESSAGES:
        if type(other) is not type(message):
            assert not accepts(name, json.loads(other.model_dump_json()))


def test_required_is_what_the_model_requires() -> None:
    for name, message in MESSAGES:
        model = type(message)
        required = {key for key, field in model.model_fields.items() if field.is_required()}
        assert set(SCHEMAS[f"{name}.json"]["required"]) == required | ({"type"} & model.model_fields.keys())


@pytest.mark.parametrize(
    ("change", "sound"),
    [
        ({}, True),
        ({"raw": 1.5, "flags": ["foreign_target"]}, True),
        ({"score": 0.5}, False),
        ({"score": "0.5"}, False),
        ({"score": "1.000001"}, False),
        ({"score": None}, False),
        ({"cause": "timeout"}, False),
        ({"part": "polite"}, True),
        ({"part": "Polite"}, False),
        ({"state": "unknown"}, False),
    ],
)
def test_verdicts(change: dict[str, Any], sound: bool) -> None:
    figure = "0.500000"
    verdict = {"state": "scored", "part": "entities", "score": figure, "low": figure, "high": figure, **change}
    assert accepts("verdict", verdict) is sound


@pytest.mark.parametrize(
    ("state", "cause", "sound"),
    [
        ("failed", "timeout", True),
        ("failed", "no_claims", False),
        ("not_applicable", "no_claims", True),
        ("not_applicable", "timeout", False),
        ("scored", "timeout", False),
    ],
)
def test_causes(state: str, cause: str, sound: bool) -> None:
    assert accepts("verdict", {"state": state, "part": "entities", "cause": cause}) is sound


# --- policies


@pytest.mark.parametrize("name", POLICIES)
def test_canonical_policies(name: str) -> None:
    document = POLICIES[name].document
    assert accepts("policy-document", document)
    for key in document:
        assert not accepts("policy-document", {k: v for k, v in document.items() if k != key})
    assert not accepts("policy-document", {**document, "threshold": "0.8"})
    assert not accepts("policy-document", {**document, "threshold": 0.8})


TOML = """
[policy.strict]
threshold = 0.9
vetoes = ["faithfulness", "entities"]
abstention = "ignore"
deadline_s = 60
ledger = { channel = "c", chaincode = "cc" }
[policy.strict.judges.contextual_precision]
enabled = false
[policy.strict.judges.structural_fidelity.parts]
terminology = { weight = 0.2, reference = "whole_sources" }
entities = { target = "none", target_family = "gliner" }
[policy.offline]
[policy.offline.judges.tone]
weight = 0.1
parts.polite = { weight = 1, target = 0.5, words = ["please"], at_least = 2, strict = true, share = 0.25 }
"""


def test_policies_as_people_write_them() -> None:
    load_policies(TOML)
    assert accepts("policy", tomllib.loads(TOML))
    assert all(accepts("policy-document", policy.document) for policy in load_policies(TOML).values())
    assert accepts("policy", {"other": {"table": 1}})


BEYOND_THE_POLICY_S_SCHEMA = (
    *("6 decimal places", "NUL"),  # a value's own form
    *("sum to zero", "no part is called", "'faithfullness'", "structural_fidelity has"),  # several keys at once
    "judges.join.kind",  # left out: the judge's own name
)


def test_mistakes_in_policies() -> None:
    for toml, message in WRONG:
        text = f"[policy.mine]\n{toml}"
        with pytest.raises(PolicyError):
            load_policies(text)
        beyond = "= nan" in toml or any(words in message for words in BEYOND_THE_POLICY_S_SCHEMA)
        assert accepts("policy", tomllib.loads(text)) is beyond, message


def test_defaults_are_shown() -> None:
    definitions = SCHEMAS["policy.json"]["$defs"]
    assert definitions["Policy"]["properties"]["threshold"]["default"] == 0.8
    assert definitions["Faithfulness"]["properties"]["target"]["default"] == 0.95


# --- records


@pytest.mark.parametrize("vector", RECORD["accepted"], ids=lambda vector: vector["name"])
def test_records(vector: Any) -> None:
    assert accepts("record", vector["record"])


def test_refused_records() -> None:
    """Whatever the schema accepts after an edit is refused for sorting, bounds or arithmetic, never for its shape."""
    records = {vector["name"]: vector for vector in RECORD["accepted"]}
    refused = 0
    for edit in RECORD["refused"]:
        base = records[edit["base"]]
        record = edited(base["record"], edit)
        with pytest.raises(RecordError) as caught:
            check_record(record, RECORD["policies"].get(base["policy"]))
        if not accepts("record", record):
            refused += 1
        else:
            beyond = (
                "by arithmetic",
                "by the policy",
                "low <=",
                "sorted",
                "the digest",
                "enabled parts",
                "that exists",
                "another record",
            )
            assert any(words in caught.value.rule for words in beyond) or "\n" in str(edit["set"]), edit
    assert refused > 50
