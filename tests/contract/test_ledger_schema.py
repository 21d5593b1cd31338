"""The page about the record lists exactly the fields and codes that the code has."""

import re
from pathlib import Path

import pytest

from glassbox.contract import record
from glassbox.contract.schemas import record_definitions
from glassbox.contract.verdict import FAILED, NOT_APPLICABLE
from tests.vectors.generate import load

PAGE = (Path(__file__).parents[2] / "docs" / "ledger-schema.md").read_text()


def listed(after: str) -> list[str]:
    """The first column of the first table after `after`, without its mark-up."""
    table = PAGE.split(after, 1)[1].split("|---|", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `([^`]+)` \|", table, re.M)


@pytest.mark.parametrize(
    ("heading", "fields"),
    [
        ("## Scorecard\n", record.SCORECARD_FIELDS),
        ("### Part row\n", tuple(record_definitions()["PartRow"]["required"])),
        ("### Judge row\n", tuple(record_definitions()["JudgeRow"]["required"])),
        ("## Run, review and policy\n", record.REFERENCE_FIELDS),
    ],
)
def test_fields(heading: str, fields: tuple[str, ...]) -> None:
    assert tuple(listed(heading)) == fields


def test_causes() -> None:
    for after, codes in (("Causes of `not_applicable`", NOT_APPLICABLE), ("Causes of `failed`", FAILED)):
        rows = listed(after)
        assert len(rows) == len(set(rows))
        assert set(rows) == codes


def test_reasons_are_those_of_the_golden_vectors() -> None:
    used = {reason for case in load("composite.json")["cases"] for reason in case["expect"]["reasons"]}
    assert set(listed("Reasons.")) == {re.sub(":.*", ":PART", reason) for reason in used}
