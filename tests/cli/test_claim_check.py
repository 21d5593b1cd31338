"""Large texts leave the request before it is sent, and nothing else of it changes."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from glassbox.cli.claim_check import checked_in
from glassbox.contract.documents import DocumentRules
from glassbox.contract.request import MAX_BODY, parse_request
from ledger.documents import StoredDocuments
from tests.cli.conftest import Command
from tests.cli.judged import judged, settings_of


@pytest.fixture
def documents(tmp_path: Path) -> StoredDocuments:
    return StoredDocuments(DocumentRules((f"file://{tmp_path}/",), document_max=2 * MAX_BODY))


def request(*texts: Any, **fields: Any) -> bytes:
    return json.dumps({"query": "q", "answer": "a", "retrieved_passages": texts, **fields}).encode()


async def sent(documents: StoredDocuments, raw: bytes, over: int | None = None) -> bytes:
    ((number, made),) = [line async for line in checked_in([(7, raw)], documents, over)]
    assert number == 7
    return made


FERRY = "The ferry Alma Linde was built in 1962 by Hartwell Yard. It carries 240 passengers across the Wend. " * 3


TOML = """
[policy.words]
vetoes = []
[policy.words.judges.contextual_precision]
enabled = false
[policy.words.judges.semantic_faithfulness]
enabled = false
"""
"""Only what needs neither a model nor a large library."""


def asking(passage: Any) -> bytes:
    fields = {
        "evaluation_id": "ferry-1",
        "query": "Who built the ferry Alma Linde?",
        "retrieved_passages": [passage],
        "policy": "words",
    }
    return json.dumps({**fields, "answer": "The ferry Alma Linde was built in 1962 by Hartwell Yard."}).encode()


async def referring(folder: Path) -> bytes:
    """A request that refers to its passage, in the documents of a data folder."""
    settings = settings_of(folder)
    return await sent(StoredDocuments(settings.documents()), asking(FERRY), over=0)


def test_a_text_by_reference_is_judged_as_the_text_itself(tmp_path: Path, command: Command) -> None:
    data = tmp_path / ".glassbox"
    for name, raw in (("given", asking(FERRY)), ("referred", asyncio.run(referring(data)))):
        (tmp_path / f"{name}.jsonl").write_bytes(raw + b"\n")
    (tmp_path / "glassbox.toml").write_text(TOML)
    given, referred = (command("judge", f"{name}.jsonl", "--json")[1] for name in ("given", "referred"))
    assert json.loads(given)["outcome"] == "pass"
    assert given == referred
    for path in (data / "documents").rglob("*"):
        if path.is_file():
            path.write_bytes(b"another text")
    changed = json.loads(command("judge", "referred.jsonl", "--json")[1])
    assert {verdict["cause"] for verdict in changed["verdicts"]} == {"document_changed"}
    assert changed["outcome"] == "incomplete"


def test_what_was_judged_from_a_reference_is_shown_proven_and_recomputed(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [asyncio.run(referring(tmp_path / "data"))]
    folder = judged(tmp_path / "data", requests, policy="words", policies=TOML)
    monkeypatch.setenv("GLASSBOX_DATA_DIR", str(folder))
    assert command("show", "ferry-1")[0] == 0
    assert command("recompute", "ferry-1")[0] == 0
    assert command("proof", "ferry-1", "--with-evidence", "-o", "bundle.json")[0] == 0
    bundle = json.loads((tmp_path / "bundle.json").read_bytes())
    assert [*bundle["request"]["retrieved_passages"][0]] == ["reference"]
    shutil.rmtree(folder / "documents")
    code, out, _ = command("recompute", "ferry-1")
    assert code == 2
    assert "put it back" in out


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
