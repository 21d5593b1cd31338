"""The sample set is in form, and the shipped judges notice what was planted in it."""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files
from typing import Any

import pytest

from glassbox.contract.request import ContractError, EvaluationRequest, parse_request

LINES: list[bytes] = (files("glassbox.cli") / "samples" / "requests.jsonl").read_bytes().splitlines()
RAW: list[dict[str, Any]] = [json.loads(line) for line in LINES]
BROKEN = {"contract_passages_as_string": "retrieved_passages", "contract_blank_query": "query"}
REQUESTS: list[EvaluationRequest] = [
    parse_request(line, ()).request
    for line, raw in zip(LINES, RAW, strict=True)
    if raw["metadata"].get("defect") not in BROKEN
]
BY_ID: dict[str, EvaluationRequest] = {r.evaluation_id: r for r in REQUESTS if r.evaluation_id}
DEFECTS = frozenset(
    (
        "invented_entity",
        "changed_number",
        "flipped_negation",
        "opposite_word",
        "wrong_pair",
        "off_topic",
        "useful_passage_last",
        "inverted_scores",
        "no_passages",
        "no_scores",
        "duplicated_passages",
        "abstaining",
        "sent_twice",
        *BROKEN,
    )
)


def test_every_defect_is_planted_and_nothing_else() -> None:
    planted = Counter(raw["metadata"].get("defect", "sound") for raw in RAW)
    assert set(planted) == DEFECTS | {"sound"}
    assert planted["sound"] > len(RAW) / 2


def test_the_set_spans_four_domains_and_two_languages_besides_english() -> None:
    assert {raw["metadata"]["domain"] for raw in RAW} == {"transit", "leaflet", "database", "railway"}
    assert {raw["metadata"].get("language", "en") for raw in RAW} == {"en", "de", "es", "fr"}


def test_a_producer_uses_every_optional_field() -> None:
    used = set().union(*(raw.keys() for raw in RAW))
    assert used >= {
        "model",
        "session_id",
        "retrieval_strategy",
        "reference_answer",
        "retrieved_entities",
        "chunk_scores",
        "source_documents",
    }
    assert any(p.score is not None for r in REQUESTS for p in r.retrieved_passages)


def test_texts_have_the_size_of_real_ones() -> None:
    for request in REQUESTS:
        defect = (request.metadata or {}).get("defect")
        assert 2 <= len(request.retrieved_passages) <= 6 or defect == "no_passages"
        assert all(40 <= len(p.text.split()) <= 120 for p in request.retrieved_passages)


@pytest.mark.parametrize(("defect", "field"), BROKEN.items())
def test_a_broken_request_is_refused_by_its_field(defect: str, field: str) -> None:
    broken = [line for line, raw in zip(LINES, RAW, strict=True) if raw["metadata"].get("defect") == defect]
    assert broken
    for line in broken:
        with pytest.raises(ContractError) as refused:
            parse_request(line, ())
        assert refused.value.field == field


def test_a_request_sent_twice_is_one_evaluation() -> None:
    twice = [n for n, raw in enumerate(RAW) if raw["metadata"].get("defect") == "sent_twice"]
    assert len(twice) == 2
    assert LINES[twice[0]] == LINES[twice[1]]
    assert "evaluation_id" not in RAW[twice[0]]
    first, second = (parse_request(LINES[n], ()).request for n in twice)
    assert first.derived_id(b"key") == second.derived_id(b"key")


def test_every_other_request_has_an_id_of_its_own() -> None:
    ids = Counter(raw.get("evaluation_id") for raw in RAW)
    assert ids.pop(None) == 2
    assert set(ids.values()) == {1}


def test_a_twin_is_sound_and_asks_the_same() -> None:
    for raw in RAW:
        metadata = raw["metadata"]
        if metadata.get("defect") in {None, "sent_twice"}:
            continue
        twin = BY_ID[metadata["twin"]]
        assert "defect" not in (twin.metadata or {})
        assert metadata["defect"] == "contract_blank_query" or raw["query"] == twin.query
