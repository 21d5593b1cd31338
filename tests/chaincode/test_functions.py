"""What the chaincode writes and lists, asked through a peer: the test peer, and a real one where there is one."""

import hashlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from glassbox.contract.canonical import canonical
from glassbox.contract.record import reference_record
from tests.ledger.fabric.either_network import START_TIMEOUT, client, connect, network, started
from tests.ledger.fabric.fixtures import chaincode_binary
from tests.ledger.fabric.raw_client import RawClient
from tests.ledger.records import CREATED_AT, POLICY, scorecard

__all__ = ["chaincode_binary", "client", "connect", "network", "started"]
pytestmark = pytest.mark.timeout(START_TIMEOUT)

ROOT = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
SIGNATURE = "— log.example AAAAAAAA"


def some() -> str:
    """64 hexadecimal digits that no other test has."""
    return hashlib.sha256(uuid.uuid4().bytes).hexdigest()


def committed(client: RawClient, function: str, *arguments: str) -> tuple[Any, str]:
    """The answer of a function that writes, and its transaction."""
    prepared = client.endorse(function, *arguments)
    assert client.commit(prepared) == "VALID"
    return json.loads(prepared.result), prepared.tx_id


def batch(*records: dict[str, Any]) -> str:
    return canonical(list(records)).decode()


def pages(client: RawClient, function: str, *arguments: str, size: int = 2) -> Iterator[dict[str, Any]]:
    bookmark = ""
    while True:
        page = json.loads(client.evaluate(function, *arguments, str(size), bookmark))
        yield from page["items"]
        if not (bookmark := page["bookmark"]):
            return


def test_scorecards_are_listed_by_policy_and_time_by_session_and_by_what_they_supersede(client: RawClient) -> None:
    prefix, session = some()[:32], some()
    times = [f"2019-03-0{day}T00:00:00.000Z" for day in range(1, 6)]
    records = [
        scorecard(f"{prefix}-{5 - n}", closed_at=time, session=session if n % 2 else None)
        for n, time in enumerate(times)
    ]
    again = scorecard(f"{prefix}-9", closed_at=times[-1], supersedes=records[0]["evaluation_id"])
    answers, tx_id = committed(client, "CommitScorecards", batch(*records, again))
    assert [answer["result"] for answer in answers] == ["created"] * 6

    def item(record: dict[str, Any]) -> dict[str, Any]:
        return {"evaluation_id": record["evaluation_id"], "time": record["closed_at"], "tx_id": tx_id}

    def mine(*arguments: str) -> list[dict[str, Any]]:
        found = pages(client, "ListByPolicy", POLICY.digest, *arguments)
        return [its for its in found if its["evaluation_id"].startswith(prefix)]

    assert mine(times[0], "") == [item(record) for record in [*records, again]]
    assert mine(times[1], times[3]) == [item(record) for record in records[1:3]]
    assert mine(times[4], times[4]) == []
    assert list(pages(client, "ListBySession", session)) == [item(records[1]), item(records[3])]
    assert list(pages(client, "ListReferring", records[0]["evaluation_id"])) == [item(again)]
    assert [its["evaluation_id"] for its in pages(client, "ListByPrefix", prefix)] == sorted(
        record["evaluation_id"] for record in [*records, again]
    )
    read = json.loads(client.evaluate("ReadRecords", json.dumps([again["evaluation_id"], "no such id"])))
    assert read == [{"record": again, "tx_id": tx_id}, None]


def test_runs_and_reviews(client: RawClient) -> None:
    run = reference_record("run", some(), CREATED_AT)
    review = reference_record("review", some(), CREATED_AT, refers_to=run["evaluation_id"])
    early = json.loads(client.evaluate("CommitReview", batch(review)[1:-1]))
    assert (early["result"], early["code"], early["field"]) == ("refused", "unknown_reference", "refers_to")
    for function, record in (("CommitRun", run), ("CommitReview", review)):
        answer, tx_id = committed(client, function, batch(record)[1:-1])
        assert answer == {"evaluation_id": record["evaluation_id"], "result": "created"}
        found = json.loads(client.evaluate("ReadRecords", json.dumps([record["evaluation_id"]])))
        assert found == [{"record": record, "tx_id": tx_id}]
    assert [its["evaluation_id"] for its in pages(client, "ListReferring", run["evaluation_id"])] == [
        review["evaluation_id"]
    ]


def test_policies_are_read_and_listed(client: RawClient) -> None:
    assert json.loads(client.evaluate("ReadPolicy", POLICY.digest)) == POLICY.document
    assert json.loads(client.evaluate("ReadPolicy", some())) is None
    assert f"policy:{POLICY.digest}" in [its["evaluation_id"] for its in pages(client, "ListPolicies")]


def test_checkpoints_only_grow(client: RawClient) -> None:
    origin = f"log.example/{some()}"
    assert json.loads(client.evaluate("ReadCheckpoint", origin)) is None
    made = []
    for size in ("3", "20", "100"):
        answer, tx_id = committed(client, "AnchorCheckpoint", origin, size, ROOT, SIGNATURE)
        assert answer == {"result": "created"}
        made.append({"origin": origin, "size": size, "root": ROOT, "signature": SIGNATURE, "tx_id": tx_id})
    newest = json.loads(client.evaluate("ReadCheckpoint", origin))
    assert newest == {**made[-1], "msp_id": client.profile.signer.msp_id}
    assert [{**its, "msp_id": None} for its in pages(client, "ListCheckpoints", origin)] == [
        {**one, "msp_id": None} for one in made
    ]
    assert json.loads(client.evaluate("AnchorCheckpoint", origin, "20", ROOT, SIGNATURE)) == {"result": "exists"}
