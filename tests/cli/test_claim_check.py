"""Large texts leave the request before it is sent, and nothing else of it changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from glassbox.cli.claim_check import checked_in
from glassbox.contract.documents import DocumentRules
from glassbox.contract.request import MAX_BODY, parse_request
from ledger.documents import StoredDocuments


@pytest.fixture
def documents(tmp_path: Path) -> StoredDocuments:
    return StoredDocuments(DocumentRules((f"file://{tmp_path}/",), document_max=2 * MAX_BODY))


def request(*texts: Any, **fields: Any) -> bytes:
    return json.dumps({"query": "q", "answer": "a", "retrieved_passages": texts, **fields}).encode()


async def sent(documents: StoredDocuments, raw: bytes, over: int | None = None) -> bytes:
    ((number, made),) = [line async for line in checked_in([(7, raw)], documents, over)]
    assert number == 7
    return made


async def test_what_fits_goes_byte_for_byte(documents: StoredDocuments) -> None:
    for raw in (request("short", "x" * 10_000), b"no request", b'{"retrieved_passages": 3}'):
        assert await sent(documents, raw) == raw
        assert await sent(documents, raw, over=20_000) == raw


async def test_texts_over_the_limit_are_read_back_the_same(documents: StoredDocuments) -> None:
    raw = request("short", {"id": "p", "score": 0.5, "text": "é" * 1000}, source_documents=["y" * 5000])
    made = parse_request(await sent(documents, raw, over=1000), []).request
    assert [field for field, _ in made.references()] == [
        "retrieved_passages[1].reference",
        "source_documents[0].reference",
    ]
    needs = ("retrieved_passages", "source_documents")
    read = await documents.read(made.judge_input(needs))
    assert read == parse_request(raw, []).request.judge_input(needs).read({})


async def test_of_a_request_too_large_the_largest_go_until_it_fits(documents: StoredDocuments) -> None:
    raw = request("a" * 600_000, "b" * 300_000, "c" * 400_000)
    assert len(raw) > MAX_BODY
    made = await sent(documents, raw)
    references = [field for field, _ in parse_request(made, []).request.references()]
    assert references == ["retrieved_passages[0].reference"]


async def test_what_no_worker_would_read_stays_for_intake_to_refuse(documents: StoredDocuments) -> None:
    raw = request("a" * (2 * MAX_BODY + 1))
    assert await sent(documents, raw) == raw
