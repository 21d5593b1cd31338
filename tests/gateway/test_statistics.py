"""Statistics over HTTP."""

from __future__ import annotations

from tests.catalogue.stories import NOW, policy, receipt
from tests.gateway.parts import Door
from tests.gateway.test_submitting import URL, problem

PATH = "/v1/statistics"
SPAN = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}


async def test_statistics_of_a_tenant(keyed_door: Door) -> None:
    keyed_door.told(
        [receipt("a", faithfulness="0.500000"), receipt("b", at=NOW + 9), receipt("theirs", tenant="other")]
    )
    async with keyed_door.client(keyed_door.key()) as client:
        found = (await client.get(PATH, params=SPAN)).json()
        (bucket,) = found["trend"]
        assert bucket == {
            "at": "2026-01-01T00:00:00.000Z",
            "n": 2,
            "mean_trust": "0.940000",
            "pass": 1,
            "review": 0,
            "fail": 1,
            "incomplete": 0,
        }
        (faithfulness,) = [part for part in found["parts"] if part["part"] == "faithfulness"]
        assert (faithfulness["mean"], faithfulness["histogram"][10], faithfulness["histogram"][19]) == (
            "0.750000",
            1,
            1,
        )
        assert (found["n"], found["complete"], found["models"][0]["n"]) == (2, True, 2)
        assert (await client.get(PATH)).json()["n"] == 0, "of the last week"
        problem(await client.get(PATH, params={"since": SPAN["since"]}), 422, "invalid_parameter", "since")
        problem(await client.get(PATH, params={"bucket": "year"}), 422, "invalid_parameter", "bucket")


async def test_a_list_by_trust_with_what_to_look_at_first(open_door: Door) -> None:
    open_door.told([policy(), receipt("a", tenant=None), receipt("b", tenant=None, faithfulness="0.500000")])
    async with open_door.client() as client:
        low, high = (await client.get(URL, params={"order": "lowest_trust"})).json()["items"]
        assert (low["evaluation_id"], low["weakest"]["part"], low["weakest"]["meets_target"]) == (
            "b",
            "faithfulness",
            False,
        )
        assert (low["threshold"], low["policy"], high["weakest"]) == ("0.800000", "default", None)
        wrong = {"order": "oldest", "judge": "semantic_faithfulness"}
        problem(await client.get(URL, params=wrong), 422, "invalid_parameter", "order")
