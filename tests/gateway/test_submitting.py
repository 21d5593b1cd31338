"""Requests in: what is accepted, under which id, and what each mistake is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from glassbox.contract.request import MAX_BODY, parse_request
from glassbox.gateway.limits import Limits
from streams.ports import TooLarge
from streams.publishing import NotAcknowledged, QueueFull
from tests.catalogue.stories import POLICIES, receipt
from tests.gateway.parts import ASKED, ID_KEY, Door, door

JSON = {"Content-Type": "application/json"}
URL = "/v1/evaluations"


def problem(response: httpx.Response, status: int, code: str, field: str = "") -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert (found["type"], found["status"]) == (f"urn:glassbox:problem:{code}", status)
    assert found.get("field", "") == field
    return found


async def test_accepted_is_what_the_broker_has(open_door: Door) -> None:
    async with open_door.client() as client:
        answer = await client.post(URL, json={**ASKED, "evaluation_id": "e1"})
        assert answer.status_code == 202
        url = "/v1/evaluations/e1"
        assert answer.json() == {"evaluation_id": "e1", "state": "accepted", "status_url": url}
        assert answer.headers["location"] == url
        ((key, value, headers),) = open_door.broker.sent
        assert (key, headers, json.loads(value)) == (b"e1", {}, {**ASKED, "evaluation_id": "e1"})
        state = (await client.get(url)).json()
        assert (state["state"], state["requested_at"] is not None) == ("accepted", True), "before the catalogue has it"


async def test_an_address_names_the_tenant_where_its_reader_must(tmp_path: Path) -> None:
    asked = {**ASKED, "evaluation_id": "e", "tenant": "a b/c"}
    with door(tmp_path, keyed=True) as made:
        for key, named in ((made.key(None, "admin"), True), (made.key("a b/c"), False)):
            async with made.client(key) as client:
                answer = await client.post(URL, json=asked)
                url = answer.headers["location"]
                assert url == f"{URL}/e" + "?tenant=a%20b%2Fc" * named
                ndjson = {"Content-Type": "application/x-ndjson"}
                line = (await client.post(f"{URL}:batch", content=json.dumps(asked), headers=ndjson)).json()
                assert (answer.json()["status_url"], line["status_url"]) == (url, url)
                assert (await client.get(url)).json()["evaluation_id"] == "e"


async def test_ids(open_door: Door) -> None:
    async with open_door.client() as client:
        derived = (await client.post(URL, json=ASKED)).json()["evaluation_id"]
        assert derived == parse_request(json.dumps(ASKED).encode(), POLICIES).request.derived_id(ID_KEY)
        assert (await client.post(URL, json={**ASKED, "unknown": 1})).json()["evaluation_id"] == derived
        named = {"Idempotency-Key": "order-17"}
        one = await client.post(URL, json=ASKED, headers=named)
        two = await client.post(URL, json=ASKED, headers=named)
        assert one.json() == two.json()
        assert one.json()["evaluation_id"] != derived
        other = await client.post(URL, json={**ASKED, "answer": "Babbage."}, headers=named)
        problem(other, 409, "id_reused", "Idempotency-Key")
        assert len(open_door.broker.sent) == 4
        both = await client.post(URL, json={**ASKED, "answer": "Babbage.", "evaluation_id": derived}, headers=named)
        problem(both, 409, "id_reused", "evaluation_id")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[1]", "body"),
        (b"[" * 100_000, "body"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, None),
        (b'{"query": "q", "query": "q", "answer": "a", "retrieved_passages": []}', "query"),
        (json.dumps({**ASKED, "answer": " "}).encode(), "answer"),
        (json.dumps({**ASKED, "answer": "\ud800"}).encode(), "answer"),
        (json.dumps({**ASKED, "chunk_scores": [1.0, 2.0]}).encode(), "chunk_scores"),
        (json.dumps({**ASKED, "policy": "none-such"}).encode(), "policy"),
        (json.dumps({**ASKED, "schema_version": "9"}).encode(), "schema_version"),
        (json.dumps({**ASKED, "evaluation_id": "run:1"}).encode(), "evaluation_id"),
        (json.dumps({**ASKED, "callback_url": "https://x"}).encode(), "callback_url"),
        (json.dumps({**ASKED, "supersedes": "none"}).encode(), "supersedes"),
        (
            json.dumps(
                {**ASKED, "source_documents": [{"reference": {"uri": "file:///etc/x", "sha256": "a" * 64, "size": 1}}]}
            ).encode(),
            "source_documents[0].reference.uri",
        ),
    ],
)
async def test_what_breaks_the_contract_is_told_and_not_sent(open_door: Door, body: bytes, field: str | None) -> None:
    async with open_door.client() as client:
        answer = await client.post(URL, content=body, headers=JSON)
        assert answer.status_code == 422
        problem(answer, 422, "contract", answer.json()["field"] if field is None else field)
        assert "Lovelace" not in answer.text
    assert open_door.broker.sent == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (json.dumps({**ASKED, "retrieved_passages": [1]}).encode(), "must be an object or a string"),
        (json.dumps({**ASKED, "source_documents": [[]]}).encode(), "must be an object or a string"),
        (json.dumps({**ASKED, "model": "m"}).encode(), "must be an object"),
        (json.dumps({**ASKED, "model": {"name": "m"}}).encode(), "is missing"),
        (b"\xef\xbb\xbf{}", "not JSON: begins with a byte order mark; send UTF-8 without one"),
    ],
)
async def test_mistakes_are_told_without_names_of_ours(open_door: Door, body: bytes, said: str) -> None:
    async with open_door.client() as client:
        assert (await client.post(URL, content=body, headers=JSON)).json()["detail"] == said


async def test_supersedes_names_an_own_evaluation_with_a_record(open_door: Door) -> None:
    open_door.told([receipt("mine", tenant=None), receipt("theirs", tenant="other")])
    async with open_door.client() as client:
        assert (await client.post(URL, json={**ASKED, "supersedes": "mine"})).status_code == 202
        problem(await client.post(URL, json={**ASKED, "supersedes": "theirs"}), 422, "contract", "supersedes")


async def test_bodies_that_are_too_large_or_of_another_type(open_door: Door) -> None:
    async def endless() -> Any:
        for _ in range(200):
            yield b" " * 64 * 1024

    async with open_door.client() as client:
        large = json.dumps({**ASKED, "answer": "a" * MAX_BODY}).encode()
        problem(await client.post(URL, content=large, headers=JSON), 413, "too_large", "body")
        answer = await client.post(URL, content=endless(), headers=JSON)
        problem(answer, 413, "too_large", "body")
        assert answer.headers["connection"] == "close"
        padded = json.dumps(ASKED).encode().ljust(MAX_BODY)
        assert (await client.post(URL, content=padded, headers=JSON)).status_code == 202
        exactly = {
            **ASKED,
            "answer": "a" * (MAX_BODY - len(json.dumps({**ASKED, "answer": ""}, separators=(",", ":")))),
        }
        fits = json.dumps(exactly, separators=(",", ":")).encode()
        assert len(fits) == MAX_BODY
        problem(await client.post(URL, content=fits, headers=JSON), 413, "too_large", "body")
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            answer = await client.post(URL, content=b"{}", headers={"Content-Type": kind})
            problem(answer, 415, "unsupported_media_type")
        packed = {**JSON, "Content-Encoding": "gzip"}
        problem(await client.post(URL, content=b"{}", headers=packed), 415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("error", "status", "code", "field"),
    [
        (NotAcknowledged("Local: Message timed out"), 503, "broker_unavailable", ""),
        (QueueFull(), 429, "too_busy", ""),
        (TooLarge(), 413, "too_large", "body"),
    ],
)
async def test_what_the_broker_has_not_is_not_accepted(
    open_door: Door, error: Exception, status: int, code: str, field: str
) -> None:
    open_door.broker.error = error
    async with open_door.client() as client:
        answer = await client.post(URL, json={**ASKED, "evaluation_id": "e"})
        problem(answer, status, code, field)
        assert ("retry-after" in answer.headers) == (status in (429, 503))
        assert (await client.get(f"{URL}/e")).status_code == 404
        open_door.broker.error = None
        assert (await client.post(URL, json={**ASKED, "evaluation_id": "e"})).status_code == 202


async def test_a_fault_of_ours_says_nothing_of_what_was_sent(open_door: Door, caplog: pytest.LogCaptureFixture) -> None:
    open_door.broker.error = ValueError("Ada Lovelace")
    async with open_door.client() as client:
        answer = await client.post(URL, json=ASKED)
    problem(answer, 500, "failed")
    assert "Lovelace" not in answer.text + caplog.text
    assert "ValueError at tests.gateway.parts" in caplog.text


async def test_no_more_bytes_are_taken_than_may_be_in_memory(tmp_path: Path) -> None:
    with door(tmp_path, limits=Limits(in_flight_bytes=100)) as made:
        async with made.client() as client:
            answer = await client.post(URL, json=ASKED)
            problem(answer, 429, "too_busy")
            assert answer.headers["retry-after"] == "1"


async def test_a_batch_is_answered_line_by_line(open_door: Door) -> None:
    rows = [
        json.dumps({**ASKED, "evaluation_id": "a"}).encode(),
        b"",
        b'{"query": 1}',
        b" " + json.dumps({**ASKED, "evaluation_id": "b"}).encode() + b"\r",
        json.dumps({**ASKED, "answer": "x" * MAX_BODY}).encode(),
        json.dumps({**ASKED, "evaluation_id": "c"}).encode(),
    ]

    async def chunks() -> Any:
        whole = b"\n".join(rows)
        for start in range(0, len(whole), 70_001):
            yield whole[start : start + 70_001]

    async with open_door.client() as client:
        answer = await client.post(f"{URL}:batch", content=chunks(), headers={"Content-Type": "application/x-ndjson"})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/x-ndjson"
        found = [json.loads(line) for line in answer.text.splitlines()]
    assert [(each["line"], each["status"], each.get("evaluation_id")) for each in found] == [
        *((1, 202, "a"), (3, 422, None), (4, 202, "b"), (5, 413, None), (6, 202, "c")),
    ]
    assert found[1]["problem"]["field"] in ("answer", "query")
    assert [key for key, *_ in open_door.broker.sent] == [b"a", b"b", b"c"]


async def test_a_batch_ends_where_it_has_too_many_lines_or_no_room(tmp_path: Path) -> None:
    line = json.dumps(ASKED).encode()
    ndjson = {"Content-Type": "application/x-ndjson"}
    with door(tmp_path, limits=Limits(batch_lines=3, in_flight_bytes=100_000)) as made:
        async with made.client() as client:
            answer = await client.post(f"{URL}:batch", content=b"\n\n".join([line] * 10), headers=ndjson)
            assert [json.loads(each)["status"] for each in answer.text.splitlines()] == [202, 202, 202, 413]
            answer = await client.post(f"{URL}:batch", content=b"x" * 200_000, headers=ndjson)
            (last,) = answer.text.splitlines()
            assert json.loads(last)["problem"]["type"] == "urn:glassbox:problem:too_busy"


async def test_every_answer_has_the_security_headers_and_no_cors(open_door: Door) -> None:
    async with open_door.client(headers={"Origin": "https://evil.example"}) as client:
        for path in ("/v1/evaluations", "/none", "/openapi.json"):
            answer = await client.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert not [name for name in answer.headers if name.startswith("access-control")]
        problem(await client.get("/none"), 404, "not_found")
        wrong = await client.delete(URL)
        problem(wrong, 405, "method_not_allowed")
        assert "POST" in wrong.headers["allow"]
