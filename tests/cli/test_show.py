"""What `glassbox show` says of an answer that its sources do not have."""

import json
from pathlib import Path
from typing import Any

import pytest

from glassbox.cli.show import MOST, claims, entities, pairs
from tests.cli.conftest import Command
from tests.cli.judged import judged

ANSWER = "The ferry carries 240 passengers. The ferry Alma Linde was built in 1971 by Northgate Works."
PASSAGE = "The ferry Alma Linde was built in 1962 by Hartwell Yard. The ferry carries 240 passengers across the Wend."


class Evidence:
    """As much of a dossier as is read."""

    def __init__(self, **evidence: Any) -> None:
        self.evidence = evidence


def test_what_no_source_has_is_listed_with_its_place(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"evaluation_id": "ferry", "query": "Who built it?", "answer": ANSWER, "retrieved_passages": [PASSAGE]}
    judged(tmp_path / "data", [json.dumps(given).encode()])
    monkeypatch.setenv("GLASSBOX_DATA_DIR", str(tmp_path / "data"))
    code, out, _ = command("show", "ferry")
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    assert "+ The ferry carries 240 passengers. (rank 1)" in lines
    assert "- The ferry Alma Linde was built in 1971 by Northgate Works. (characters 34 to 92)" in lines
    at = lines.index("not in the sources")
    year, works = ANSWER.index("1971"), ANSWER.index("Northgate")
    assert lines[at + 1 : at + 3] == [
        f"- “1971” (characters {year} to {year + 4}): novel, nearest “1962”",
        f"- “Northgate Works” (characters {works} to {len(ANSWER) - 1}): novel",
    ]
    at = lines.index("pairs that the sources do not have")
    assert lines[at + 1] == "- “Alma Linde” with “1971” (characters 34 to 92): novel entity"


def test_no_more_than_the_first_few_and_nothing_where_all_is_supported() -> None:
    row = {"text": "X\x1b", "status": "near_miss", "spans": [[0, 1]], "nearest": "Y"}
    pair = {"pair": ["X", "Y"], "predicate": "owns", "status": "unsupported", "clause": [0, 9]}
    many: Any = Evidence(structure={"entities": {"found": [row] * 12}, "relations": {"pairs": [pair] * MOST}})
    assert entities(many) == ["- “X\ufffd” (characters 0 to 1): near miss, nearest “Y”"] * MOST + ["… and 2 more"]
    assert pairs(many) == ["- “X” owns “Y” (characters 0 to 9): unsupported"] * MOST
    right = {"entities": {"found": [row | {"status": "supported"}]}, "relations": {"pairs": []}}
    fine: Any = Evidence(structure=right)
    assert entities(fine) == pairs(fine) == []


def test_a_claim_that_no_place_was_found_for_has_none() -> None:
    row = {"text": "It sank.", "verdict": 0, "answer": None}
    found: Any = Evidence(grounding={"faithfulness": {"claims": [row]}})
    assert claims(found) == ["- It sank."]
