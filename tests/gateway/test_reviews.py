"""What people say of scorecards: a record without their words, and their words where they can be erased."""

from __future__ import annotations

import json
from typing import Any

import httpx

from glassbox.cli.labels import labelled
from glassbox.contract.events import ENTRY, Receipt, Review
from glassbox.contract.record import check_record, record_digest
from glassbox.contract.request import parse_request
from ledger.port import StoredRequest, salted_digest
from streams.publishing import NotAcknowledged
from streams.topics import RECEIPTS, SCORECARDS
from tests.catalogue.stories import NOW, POLICIES, message
from tests.gateway.parts import ASKED, Door
from tests.gateway.stored import judged
from tests.gateway.test_submitting import URL, problem

SAID = {"judge": "semantic_faithfulness", "part": "faithfulness", "agrees": False, "reason": "The passage says 1842."}


def come(door: Door, tenant: str | None = "acme") -> list[Review]:
    """What was sent reaches the catalogue, and the ledger."""
    entries = [ENTRY.validate_json(raw) for raw in door.broker.entries]
    door.broker.entries.clear()
    found = [entry for entry in entries if isinstance(entry, Review)]
    for n, entry in enumerate(found):
        name = entry.record["evaluation_id"]
        receipt = Receipt(
            evaluation_id=name,
            result="created",
            record=entry.record,
            record_digest=record_digest(entry.record),
            ledger="merkle",
            proof={},
            tenant=tenant,
        )
        topics = (SCORECARDS, entry), (RECEIPTS, receipt)
        door.told([message(topic, event.model_dump(mode="json"), at=NOW + n, offset=n) for topic, event in topics])
    return found


async def say(client: httpx.AsyncClient, name: str = "e", **changes: Any) -> httpx.Response:
    return await client.post(f"{URL}/{name}/reviews", json={**SAID, **changes})


async def test_a_review_is_a_record_that_points_at_the_scorecards(keyed_door: Door) -> None:
    await judged(keyed_door)
    async with keyed_door.client(keyed_door.key()) as client:
        answer = await say(client)
        assert answer.status_code == 202, answer.text
        assert answer.headers["location"] == f"{URL}/e/evidence"
        raw = keyed_door.broker.entries[0]
        assert b"1842" not in raw, "the topic has no words"
        (entry,) = come(keyed_door)
        check_record(entry.record, None)
        assert (entry.record["refers_to"], entry.tenant, entry.met) == ("e", "acme", True)
        assert answer.json()["review"] == entry.record["evaluation_id"]
        stored = await keyed_door.vault.request("e")
        assert isinstance(stored, StoredRequest)
        content = await keyed_door.vault.review("e", entry.record["digest"], stored.salt)
        assert content is not None
        assert salted_digest(stored.salt, content) == entry.record["digest"]
        (shown,) = (await client.get(f"{URL}/e/evidence")).json()["reviews"]
        assert {name: shown[name] for name in SAID} == SAID
        assert (shown["state"], shown["reviewer"][:4]) == ("committed", "key:")
        await keyed_door.vault.erase("e", "2026-02-03T04:05:06.789Z")
        assert await keyed_door.vault.review("e", entry.record["digest"], stored.salt) is None
        problem(await say(client), 404, "no_evidence")


async def test_who_may_review_what(keyed_door: Door) -> None:
    await judged(keyed_door)
    async with keyed_door.client(keyed_door.key("acme", "read")) as client:
        problem(await say(client), 403, "forbidden")
    async with keyed_door.client(keyed_door.key("other")) as client:
        problem(await say(client), 404, "not_found")
    async with keyed_door.client(keyed_door.key()) as client:
        problem(await say(client, part="entities"), 422, "contract", "part")
        problem(await say(client, agrees="no"), 422, "contract", "agrees")
        problem(await say(client, more=1), 422, "contract", "more")
        problem(await say(client, reason="x" * 4001), 422, "contract", "reason")
        empty = await client.post(f"{URL}/e/reviews", json={})
        assert problem(empty, 422, "contract", "judge")["detail"] == "is missing"
        no_object = await client.post(f"{URL}/e/reviews", json=[])
        assert problem(no_object, 422, "contract", "body")["detail"] == "must be an object"
        assert problem(await say(client, reason="x" * 65536), 413, "too_large", "body")["detail"].endswith("shorten it")
        problem(await client.post(f"{URL}/e/reviews", content=b"{}"), 415, "unsupported_media_type")
        keyed_door.broker.error = NotAcknowledged("away")
        problem(await say(client), 503, "broker_unavailable")
    assert keyed_door.broker.entries == []


async def test_an_export_that_judges_are_measured_by(keyed_door: Door) -> None:
    await judged(keyed_door, "a")
    await judged(keyed_door, "b", faithfulness="0.100000", asked={**ASKED, "answer": "Nobody knows."})
    await judged(keyed_door, "c", tenant="other")
    async with keyed_door.client(keyed_door.key("other")) as client:
        await say(client, "c")
    come(keyed_door, "other")
    async with keyed_door.client(keyed_door.key()) as one, keyed_door.client(keyed_door.key()) as two:
        await say(one, "a", agrees=True)
        await say(one, "a", part="answer_relevancy", agrees=True)
        await say(one, "b", agrees=True, reason=None)
        await say(two, "b", agrees=False)
        come(keyed_door)
        answer = await one.get("/v1/reviews")
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = answer.content.splitlines()
        found = [json.loads(line) for line in lines]
        assert [(each["evaluation_id"], each["labels"]["faithfulness"]) for each in found[:1]] == [("a", True)]
        assert sorted(each["labels"]["faithfulness"] for each in found[1:]) == [False, True]
        known = ["faithfulness", "answer_relevancy"]
        assert len(labelled(list(enumerate(lines, 1)), {}, known)) == 3, "as `glassbox agreement` reads it"
        for line in lines:
            assert parse_request(line, POLICIES).request.tenant == "acme"
        assert (await one.get("/v1/reviews", params={"until": "2026-01-01T00:00:00Z"})).content == b""
        parts = {each["part"]: each for each in (await one.get("/v1/agreement")).json()["parts"]}
        faithfulness = parts["faithfulness"]
        assert (faithfulness["reviews"], faithfulness["agreed"], faithfulness["n"]) == (3, 2, 3)
        assert (faithfulness["kappa"]["value"], faithfulness["methods"]) == ("0.400000", 1)
        assert parts["answer_relevancy"]["kappa"] is None
        await keyed_door.vault.erase("b", "2026-02-03T04:05:06.789Z")
        assert len((await one.get("/v1/reviews")).content.splitlines()) == 1
