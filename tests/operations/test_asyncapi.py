"""docs/asyncapi.yaml is what the code says, and a reader of AsyncAPI 3.0 finds its way in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from glassbox.contract.canonical import strict_loads
from glassbox.contract.events import Source
from streams.access import access
from streams.dead_letters import Reason, headers
from streams.redrive import Note
from streams.topics import CLOSED, TOPICS
from tests.operations import asyncapi
from tests.streams.events import announced, judged

DOCS = Path(__file__).parent.parent.parent / "docs"
DOCUMENT = yaml.safe_load((DOCS / "asyncapi.yaml").read_text())


def test_the_document_is_what_the_code_says() -> None:
    assert asyncapi.main(["--check", str(DOCS / "asyncapi.yaml")]) == 0, "run python -m tests.operations.asyncapi"


def test_a_document_that_differs_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "asyncapi.yaml"
    assert asyncapi.main(["--check", str(other)]) == 1
    asyncapi.main([str(other)])
    assert asyncapi.main(["--check", str(other)]) == 0
    other.write_text(other.read_text().replace("murmur2", "crc32"))
    assert asyncapi.main(["--check", str(other)]) == 1


def test_every_topic_but_the_joins_own_is_a_channel() -> None:
    described = {channel["address"] for channel in DOCUMENT["channels"].values()}
    assert described == {topic.name for topic in TOPICS if topic != CLOSED}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from [inner] if key == "$ref" else references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))
    assert found
    for reference in found:
        if not reference.startswith("#/"):
            assert (DOCS / reference).is_file(), reference
            continue
        at = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            assert step in at, reference
            at = at[step]


def test_operations_are_what_the_acls_allow() -> None:
    allowed = {
        (user, action, topic.name)
        for user, needs in access().items()
        for action, topics in (("receive", needs.reads), ("send", needs.writes))
        for topic in topics
        if topic != CLOSED
    }
    said = {
        (it["title"], it["action"], DOCUMENT["channels"][it["channel"]["$ref"].rpartition("/")[2]]["address"])
        for it in DOCUMENT["operations"].values()
    }
    assert said == allowed


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (
            "dead-letter",
            headers(Reason("contract", "f", "d"), Source(topic="t", partition=0, offset=1), 5, "e", "t", "1", "t/0/0"),
        ),
        ("dead-letter", headers(Reason("erased"), Source(topic="t", partition=0, offset=1), 5, None, None)),
        ("dead-letter-note", Note("0/1", "discarded", "2026-01-31T09:30:00.000Z", "me", "why").headers()),
    ],
)
def test_headers_are_those_that_are_written(name: str, written: dict[str, str]) -> None:
    schema = DOCUMENT["components"]["messages"][name]["headers"]
    Draft202012Validator(schema).validate(written)
    assert written.keys() <= schema["properties"].keys()
    assert set(schema["required"]) <= written.keys()


@pytest.mark.parametrize(("name", "event"), [("announced", announced()), ("judged", judged("grounding"))])
def test_a_message_has_the_schema_that_the_document_names(name: str, event: Any) -> None:
    payload = DOCUMENT["components"]["messages"][name]["payload"]["schema"]["$ref"]
    schema = strict_loads((DOCS / payload).read_bytes(), max_depth=64)
    Draft202012Validator(schema).validate(event.model_dump(mode="json"))
