"""What readers get: states, lists, proofs, events; and nothing of another tenant's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sqlalchemy import text

from glassbox.gateway.limits import Limits
from ledger.verify import verify_bundle
from tests.catalogue.stories import (
    NOW,
    POLICY,
    SECRET,
    announcement,
    card,
    judged,
    letter,
    policy,
    receipt,
    record,
    request,
)
from tests.gateway.parts import ASKED, Door, door
from tests.gateway.test_submitting import URL, problem


async def test_the_states_of_an_evaluation(keyed_door: Door) -> None:
    async with keyed_door.client(keyed_door.key()) as client:

        async def state() -> dict[str, object]:
            found = await client.get(f"{URL}/e")
            assert found.status_code == 200
            return dict(found.json())

        problem(await client.get(f"{URL}/e"), 404, "not_found")
        problem(await client.get(f"{URL}/e/proof"), 404, "not_found")
        keyed_door.told([request("e")])
        assert (await state())["state"] == "accepted"
        keyed_door.told([announcement("e"), judged("e", "grounding")])
        judging = await state()
        assert (judging["state"], judging["deadline_at"]) == ("judging", "2026-01-01T00:05:00.133Z")
        waiting = judging["waiting_for"]
        assert isinstance(waiting, list)
        assert {each["kind"] for each in waiting} == {"relevance", "calibration", "terminology", "structure"}
        assert all(each["waiting_s"] > 0 for each in waiting)
        keyed_door.told([card("e")])
        assert ((await state())["state"], (await state())["receipt"]) == ("scored", None)
        problem(await client.get(f"{URL}/e/proof"), 409, "not_committed")
        keyed_door.told([receipt("e"), letter("e")])
        committed = await state()
        assert (committed["state"], committed["waiting_for"]) == ("committed", [])
        assert committed["scorecard"] == record("e")
        assert committed["receipt"]["ledger"] == "merkle"  # type: ignore[index]
        assert committed["dead_letters"][0]["reason"] == "id_reused"  # type: ignore[index]
        assert SECRET not in json.dumps(committed)
        problem(await client.get(f"{URL}/e/proof"), 503, "catalogue_unavailable")
        keyed_door.told([policy()])
        bundle = json.loads((await client.get(f"{URL}/e/proof")).content)
        assert (bundle["record"], bundle["policy"], bundle["merkle"]["tree_size"]) == (record("e"), POLICY.document, 8)
        assert [step.name for step in verify_bundle(json.dumps(bundle).encode(), [])]


async def test_a_dead_letter_is_told_with_its_reason(keyed_door: Door) -> None:
    keyed_door.told([request("e"), letter("e", "contract", field="policy", detail="is not configured")])
    async with keyed_door.client(keyed_door.key()) as client:
        dead = (await client.get(f"{URL}/e")).json()
    assert dead["state"] == "dead_letter"
    (told,) = dead["dead_letters"]
    assert (told["reason"], told["field"], told["detail"]) == ("contract", "policy", "is not configured")


async def test_a_tenant_sees_only_its_own(keyed_door: Door) -> None:
    keyed_door.told(
        [*(receipt("a"), letter("b"), request("c"), announcement("d"), policy()), receipt("theirs", tenant="other")]
    )
    async with keyed_door.client(keyed_door.key("other")) as client:
        for name in "abcd":
            problem(await client.get(f"{URL}/{name}"), 404, "not_found")
            problem(await client.get(f"{URL}/{name}/proof"), 404, "not_found")
        assert [each["evaluation_id"] for each in (await client.get(URL)).json()["items"]] == ["theirs"]
        problem(await client.get(URL, params={"tenant": "acme"}), 403, "forbidden")
        problem(await client.get(f"{URL}/a", params={"tenant": "acme"}), 403, "forbidden")
        stream = (await client.get("/v1/events", headers={"Last-Event-ID": "0"})).text
        assert '"theirs"' in stream
        assert '"a"' not in stream
        problem(await client.post(URL, json={**ASKED, "tenant": "acme"}), 422, "contract", "tenant")
        assert (await client.post(URL, json={**ASKED, "evaluation_id": "mine"})).status_code == 202
        assert (await client.get(f"{URL}/mine")).status_code == 200
    _, value, headers = keyed_door.broker.sent[0]
    assert (json.loads(value)["tenant"], headers) == ("other", {"tenant": "other"})
    async with keyed_door.client(keyed_door.key()) as client:
        problem(await client.get(f"{URL}/mine"), 404, "not_found")
    async with keyed_door.client(keyed_door.key(None, "admin")) as client:
        assert (await client.get(f"{URL}/a", params={"tenant": "acme"})).json()["state"] == "committed"
        assert (await client.get(URL)).json()["items"] == [], "those that have no tenant"
        assert len((await client.get(URL, params={"tenant": "acme"})).json()["items"]) == 3


async def test_lists(open_door: Door) -> None:
    made = [receipt(f"e{n}", tenant=None, at=NOW + n, changes={"requested_at": NOW + n}) for n in range(5)]
    low = receipt("low", tenant=None, model="m2", faithfulness="0.100000", changes={"requested_at": NOW + 9})
    open_door.told([*made, low, request("open", tenant=None, at=NOW + 20)])
    async with open_door.client() as client:
        names, params = [], {"limit": "3"}
        while True:
            page = (await client.get(URL, params=params)).json()
            names += [each["evaluation_id"] for each in page["items"]]
            if page["next"] is None:
                break
            params["cursor"] = page["next"]
        assert names == ["open", "low", "e4", "e3", "e2", "e1", "e0"]

        async def listed(**filters: str) -> list[str]:
            answer = await client.get(URL, params=filters)
            assert answer.status_code == 200, answer.text
            return [each["evaluation_id"] for each in answer.json()["items"]]

        assert await listed(outcome="fail") == ["low"]
        assert await listed(model="m2", provider="openai") == ["low"]
        assert await listed(since="2026-01-01T00:00:00.127Z", until="2026-01-01T01:00:00.132+01:00") == ["e4"]
        assert await listed(judge="semantic_faithfulness", below="0.5") == ["low"]
        (first, *_) = (await client.get(URL, params={"judge": "semantic_faithfulness"})).json()["items"]
        assert (first["evaluation_id"], first["judge_score"], first["trust"]) == ("low", "0.460000", "0.784000")
        for params, field in (
            ({"below": "0.5"}, "below"),
            ({"judge": "j", "below": "2"}, "below"),
            ({"limit": "0"}, "limit"),
            ({"cursor": "bm9uZQ"}, "cursor"),
            ({"since": "yesterday"}, "since"),
            ({"since": "2026-01-01T00:00:00"}, "since"),
            ({"since": "0"}, "since"),
            ({"model": "\0"}, "model"),
            ({"outcome": "good"}, "outcome"),
            ({"outcom": "pass"}, "outcom"),
        ):
            problem(await client.get(URL, params=params), 422, "invalid_parameter", field)
        problem(await client.get(f"{URL}/a%20b"), 422, "invalid_parameter", "evaluation_id")


async def test_checkpoint(open_door: Door) -> None:
    async with open_door.client() as client:
        problem(await client.get("/v1/checkpoint"), 404, "not_found")
        open_door.told([receipt("a", size=4), receipt("b", size=3)])
        answer = await client.get("/v1/checkpoint")
        assert (answer.text, answer.headers["content-type"]) == ("log\n4\n", "text/plain; charset=utf-8")


async def test_events_go_on_where_their_reader_was(tmp_path: Path) -> None:
    with door(tmp_path, limits=Limits(stream_s=0.3)) as made:
        made.told([receipt(f"e{n}", tenant=None, at=NOW + n) for n in range(3)])
        async with made.client() as client:
            answer = await client.get("/v1/events", headers={"Last-Event-ID": "0"})
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = [block for block in answer.text.split("\n\n") if "event: scorecard" in block]
            assert len(events) == 3
            seen = events[1].splitlines()[0].removeprefix("id: ")
            again = (await client.get("/v1/events", headers={"Last-Event-ID": seen})).text
            assert again.count("event: scorecard") == 1
            data = json.loads(events[0].splitlines()[2].removeprefix("data: "))
            assert (data["state"], data["outcome"]) == ("committed", "pass")
            assert "event:" not in (await client.get("/v1/events")).text, "from now on"
            problem(
                await client.get("/v1/events", headers={"Last-Event-ID": "x"}),
                422,
                "invalid_parameter",
                "last-event-id",
            )


async def test_followers_are_counted(tmp_path: Path) -> None:
    with door(tmp_path, limits=Limits(streams=0)) as made:
        async with made.client() as client:
            problem(await client.get("/v1/events"), 429, "too_busy")


async def test_a_catalogue_that_is_away_is_said_and_requests_are_accepted(open_door: Door) -> None:
    with open_door.database.writing() as connection:
        for table in ("evaluations", "feed"):
            connection.execute(text(f"DROP TABLE {table}"))
    async with open_door.client() as client:
        for path in (URL, f"{URL}/e", f"{URL}/e/proof", "/v1/events"):
            problem(await client.get(path), 503, "catalogue_unavailable")
        assert (await client.post(URL, json=ASKED)).status_code == 202


async def test_without_authentication_only_this_machines_names_are_answered(open_door: Door) -> None:
    """A page of another site may have its own name point to 127.0.0.1."""
    for host, status in (("localhost", 200), ("127.0.0.1:80", 200), ("[::1]:80", 200), ("evil.example", 403)):
        async with open_door.client(host=host) as client:
            assert (await client.get(URL)).status_code == status, host


async def test_keys(keyed_door: Door, tmp_path: Path) -> None:
    async with keyed_door.client() as client:
        answer = await client.get(URL)
        problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
    good = keyed_door.key()
    identity = good.split("_")[1]
    other = keyed_door.key()
    for wrong in ("x", "gbk_", good[:-1], good + "x", f"gbk_{identity}_{other.split('_', 2)[2]}", "é", "gbk_0_0"):
        async with keyed_door.client() as client:
            headers = {"Authorization": f"Bearer {wrong}".encode()}
            problem(await client.get(URL, headers=headers), 401, "unauthenticated")
    async with keyed_door.client() as client:
        problem(await client.get(URL, headers={"Authorization": f"Basic {good}"}), 401, "unauthenticated")
    async with keyed_door.client(good) as client:
        assert (await client.get(URL)).status_code == 200
        keyed_door.keys.revoke(identity)
        problem(await client.get(URL), 401, "unauthenticated")
    text_ = keyed_door.keys.path.read_text()
    assert good.split("_", 2)[2] not in text_
    assert os.stat(keyed_door.keys.path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("scope", "reads", "submits"), [("read", 200, 403), ("submit", 403, 202), ("admin", 200, 202)])
async def test_scopes(keyed_door: Door, scope: str, reads: int, submits: int) -> None:
    async with keyed_door.client(keyed_door.key("acme", scope)) as client:
        assert (await client.get(URL)).status_code == reads
        assert (await client.post(URL, json=ASKED)).status_code == submits


async def test_a_key_has_its_own_rate(keyed_door: Door) -> None:
    slow, other = keyed_door.key(rate=0.001), keyed_door.key()
    async with keyed_door.client(slow) as client:
        assert (await client.get(URL)).status_code == 200
        answer = await client.get(URL)
        problem(answer, 429, "rate_limited")
        assert int(answer.headers["retry-after"]) > 900
    async with keyed_door.client(other) as client:
        assert (await client.get(URL)).status_code == 200


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"{URL}?session=s", "is the keyed digest that a scorecard shows as `session`, 64 hex digits"),
        (f"{URL}?judge=Faith", "must be a name such as semantic_faithfulness: a-z, then up to 63 of a-z 0-9 _"),
        (f"{URL}?judge=j&below=1.5", "must be a number from 0 to 1 with at most 6 places, such as 0.75"),
        (f"{URL}?since=yesterday", "must be a time such as 2026-01-31T09:30:00Z"),
        (f"{URL}?until=2026-13-45", "must be a time such as 2026-01-31T09:30:00Z"),
        (f"{URL}?outcome=good", "must be 'pass', 'fail', 'review' or 'incomplete'"),
        (f"{URL}?limit=0", "must be greater than or equal to 1"),
        (f"{URL}/a%20b", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : -"),
        ("/v1/runs/-/comparison/b", "must be the name of a run's folder"),
    ],
)
async def test_a_parameter_that_cannot_be_used_is_told_in_words(open_door: Door, path: str, said: str) -> None:
    async with open_door.client() as client:
        detail = (await client.get(path)).json()["detail"]
    assert detail.startswith(said)
