"""Texts and evidence over HTTP: to their own tenant alone, and never again once they are erased."""

from __future__ import annotations

from pathlib import Path

from ledger.port import StoreUnavailable
from tests.catalogue.stories import announcement, receipt
from tests.gateway.parts import ASKED, Door
from tests.gateway.stored import judged
from tests.gateway.test_submitting import URL, problem


async def test_what_stands_behind_a_scorecard(keyed_door: Door) -> None:
    standing = await judged(keyed_door, faithfulness="0.000000")
    async with keyed_door.client(keyed_door.key()) as client:
        found = (await client.get(f"{URL}/e/evidence")).json()
    assert (found["query"], found["answer"]) == (ASKED["query"], ASKED["answer"])
    assert [each["text"] for each in found["passages"]] == ASKED["retrieved_passages"]
    (claim,) = found["claims"]
    assert (claim["verdict"], claim["spans"], claim["support"]) == ("unsupported", [{"start": 0, "end": 30}], None)
    assert {part["part"]: part["score"] for part in found["parts"]} == {
        part["part"]: part["score"] for part in standing["parts"]
    }
    assert (found["policy"]["name"], found["trust"]) == ("default", standing["trust"])
    (total,) = [line for line in found["arithmetic"] if line["label"] == "sum"]
    assert total["value"] == standing["trust"]


async def test_texts_are_their_tenants(keyed_door: Door) -> None:
    await judged(keyed_door)
    for key, status, code in (
        (keyed_door.key("other"), 404, "not_found"),
        (keyed_door.key("acme", "submit"), 403, "forbidden"),
    ):
        async with keyed_door.client(key) as client:
            problem(await client.get(f"{URL}/e/evidence"), status, code)
    async with keyed_door.client(keyed_door.key("other")) as client:
        problem(await client.get(f"{URL}/e/evidence", params={"tenant": "acme"}), 403, "forbidden")
        # the same id, of another tenant's record: the store has the first one's texts
        keyed_door.told([receipt("e", tenant="other")])
        problem(await client.get(f"{URL}/e/evidence"), 404, "no_evidence")
    async with keyed_door.client(keyed_door.key(None, "admin")) as client:
        assert (await client.get(f"{URL}/e/evidence", params={"tenant": "acme"})).status_code == 200


async def test_without_texts(keyed_door: Door) -> None:
    keyed_door.told([receipt("lost"), announcement("judging")])
    await judged(keyed_door)
    await keyed_door.vault.erase("e", "2026-02-03T04:05:06.789Z")
    async with keyed_door.client(keyed_door.key()) as client:
        problem(await client.get(f"{URL}/lost/evidence"), 404, "no_evidence")
        problem(await client.get(f"{URL}/judging/evidence"), 409, "not_committed")
        erased = await client.get(f"{URL}/e/evidence")
        problem(erased, 404, "no_evidence")
        assert "erased at 2026-02-03T04:05:06.789Z" in erased.json()["detail"]
        assert (await client.get(f"{URL}/e/proof")).status_code == 200, "the proof stays"


async def test_a_store_that_is_away_is_said(keyed_door: Door, tmp_path: Path) -> None:
    await judged(keyed_door)

    async def away(name: str) -> bytes | None:
        raise StoreUnavailable(name)

    keyed_door.store.get = away  # type: ignore[method-assign]
    async with keyed_door.client(keyed_door.key()) as client:
        problem(await client.get(f"{URL}/e/evidence"), 503, "store_unavailable")
