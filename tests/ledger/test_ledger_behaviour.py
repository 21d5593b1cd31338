"""What every ledger does, whichever keeps the records: written once, run against each backend."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from glassbox.contract.canonical import canonical, sha256_hex, strict_loads
from glassbox.contract.record import record_bytes, reference_record
from ledger.both import Both
from ledger.bundle import make_bundle
from ledger.checkpoint import Signer
from ledger.fabric.hfc.ledger import HfcLedger
from ledger.fabric.ledger import FabricLedger
from ledger.fabric.trust import Trust
from ledger.merkle_log import MerkleLog
from ledger.port import AppendResult, Ledger, LedgerRefused, Receipt, Refused, UnknownPolicy, UnknownReference
from ledger.verify import verify_bundle
from tests.ledger.fabric.fixtures import BUILD_TIMEOUT
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.records import CREATED_AT, POLICY, scorecard

SIGNER = Signer("log.example/behaviour", bytes(32))
Opener = Callable[[Path], AbstractAsyncContextManager[Ledger]]


Proven = Callable[[Ledger, Receipt], Awaitable[bool]]


@dataclass(frozen=True)
class Backend:
    """`open`: the ledger of a folder. `proven`: whether everything holds that the verifier looks at."""

    name: str
    open: Opener
    proven: Proven


@asynccontextmanager
async def open_merkle(folder: Path) -> AsyncIterator[Ledger]:
    log = MerkleLog.committer(folder, SIGNER)
    try:
        yield log
    finally:
        await log.close()


async def proven_on_merkle(_: Ledger, receipt: Receipt) -> bool:
    return all(step.holds for step in verify_bundle(bundle(receipt), [str(SIGNER.verifier)]))


def on_fabric(network: TestNetwork, hfc_python: Path | None = None) -> Backend:
    """`hfc_python`: reached through hfc, not through the gateway."""

    @asynccontextmanager
    async def open_fabric(folder: Path) -> AsyncIterator[Ledger]:
        profile = network.profile("Admin")
        ledger = (
            FabricLedger(profile, folder / "pending.sqlite3")
            if hfc_python is None
            else HfcLedger(profile, profile.peers, hfc_python)  # a test network's peers take transactions too
        )
        try:
            yield ledger
        finally:
            await ledger.close()

    roots = {one.msp_id: [one.ca.root.certificate_pem] for one in network.organizations}
    trust = Trust(roots, unsigned_validity=hfc_python is not None)  # through hfc nobody is asked for a reading

    async def proven_on_fabric(ledger: Ledger, receipt: Receipt) -> bool:
        """The proof is asked for: in the receipt it would repeat a whole batch for each of its records."""
        whole = await ledger.prove(receipt.evaluation_id)
        assert whole is not None
        assert whole.record == receipt.record
        new = {"reading": whole.proof.get("reading")}  # one is made whenever a proof is asked for
        assert (receipt.proof | new).items() <= whole.proof.items() | new.items()
        return all(step.holds for step in verify_bundle(bundle(whole), [], trust))

    return Backend("fabric", open_fabric, proven_on_fabric)


def bundle(receipt: Receipt) -> bytes:
    return make_bundle(receipt, POLICY.document if receipt.record["kind"] != "run" else None)


def of_both(first: Backend, second: Backend) -> Backend:
    """What is published comes from the first."""

    @asynccontextmanager
    async def open_both(folder: Path) -> AsyncIterator[Ledger]:
        async with first.open(folder) as one, second.open(folder) as other:
            yield Both(one, other)

    return Backend(first.name, open_both, first.proven)


ON_A_NETWORK = ("fabric", "hfc", "merkle,fabric", "fabric,merkle")


@pytest.fixture(
    params=["merkle", *(pytest.param(name, marks=pytest.mark.timeout(BUILD_TIMEOUT)) for name in ON_A_NETWORK)]
)
def backend(request: pytest.FixtureRequest) -> Backend:
    merkle = Backend("merkle", open_merkle, proven_on_merkle)
    if request.param == "merkle":
        return merkle
    python = request.getfixturevalue("hfc_python") if request.param == "hfc" else None
    fabric = on_fabric(request.getfixturevalue("fabric"), python)
    match request.param:
        case "merkle,fabric":
            return of_both(merkle, fabric)
        case "fabric,merkle":
            return of_both(fabric, merkle)
    return fabric


@pytest.fixture
def opener(backend: Backend) -> Opener:
    return backend.open


@pytest.fixture
def proven(backend: Backend) -> Proven:
    return backend.proven


@pytest.fixture
async def ledger(opener: Opener, tmp_path: Path) -> AsyncIterator[Ledger]:
    async with opener(tmp_path) as made:
        await made.register_policy(POLICY.document, CREATED_AT)
        yield made


def receipts(results: list[AppendResult]) -> list[Receipt]:
    assert all(isinstance(result, Receipt) for result in results), results
    return [result for result in results if isinstance(result, Receipt)]


async def test_new_records_are_created_with_a_proof_each(ledger: Ledger, proven: Proven) -> None:
    records = [scorecard(f"e-{n}") for n in range(5)]
    made = receipts(await ledger.append(records))
    assert [receipt.result for receipt in made] == ["created"] * 5
    assert [receipt.record for receipt in made] == records
    for receipt in made:
        assert await proven(ledger, receipt)


async def test_the_same_bytes_exist_and_other_bytes_conflict(ledger: Ledger, proven: Proven) -> None:
    first, other = scorecard("e"), scorecard("e", score="0.500000")
    await ledger.append([first])
    again, conflict = receipts(await ledger.append([first, other]))
    assert (again.result, conflict.result) == ("exists", "conflict")
    assert conflict.record == first
    assert await ledger.read("e") == first
    assert await proven(ledger, again)
    assert await proven(ledger, conflict)


async def test_an_id_twice_in_one_batch_stands_once(ledger: Ledger) -> None:
    first, other = scorecard("e"), scorecard("e", score="0.500000")
    results = receipts(await ledger.append([first, first, other]))
    assert [receipt.result for receipt in results] == ["created", "exists", "conflict"]
    assert {receipt.record_digest for receipt in results} == {sha256_hex(record_bytes(first))}


async def test_an_empty_batch_is_nothing(ledger: Ledger) -> None:
    assert await ledger.append([]) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"trust": "0.999999"}, "trust"),
        ({"outcome": "incomplete"}, "outcome"),
        ({"coverage": "1"}, "coverage"),
        ({"surprise": 1}, "surprise"),
        ({"requested_at": "yesterday"}, "requested_at"),
        ({"evaluation_id": "run:no"}, "evaluation_id"),
        ({"evaluation_id": 7}, "evaluation_id"),
        ({"policy_digest": "short"}, "policy_digest"),
        ({"kind": "policy"}, "kind"),
        ({"session": "\ud800"}, "session"),
        ({"session": float("nan")}, "session"),
    ],
)
async def test_a_record_that_breaks_a_rule_is_refused_alone(
    ledger: Ledger, changes: dict[str, Any], field: str
) -> None:
    refused, made = await ledger.append([{**scorecard("bad"), **changes}, scorecard("good")])
    assert isinstance(refused, Refused)
    assert refused.field == field
    assert refused.rule
    assert receipts([made])[0].result == "created"
    assert await ledger.read("bad") is None


async def test_an_unregistered_policy_is_trouble_and_nothing_is_written(ledger: Ledger) -> None:
    unknown = scorecard("e-2", policy_digest="ab" * 32)
    with pytest.raises(UnknownPolicy, match="register it") as caught:
        await ledger.append([scorecard("e-1"), unknown])
    assert caught.value.digest == "ab" * 32
    assert await ledger.read("e-1") is None


@pytest.mark.parametrize(("field", "kind"), [("supersedes", "scorecard"), ("refers_to", "review")])
async def test_a_record_points_to_one_that_stands(ledger: Ledger, field: str, kind: str) -> None:
    review = reference_record("review", "ef" * 32, CREATED_AT, refers_to="first")
    pointing = scorecard("second", supersedes="first") if kind == "scorecard" else review
    with pytest.raises(UnknownReference) as caught:
        await ledger.append([scorecard("other"), pointing])
    assert (caught.value.evaluation_id, caught.value.field) == (pointing["evaluation_id"], field)
    assert caught.value.reference == "first"
    assert await ledger.read("other") is None
    made = receipts(await ledger.append([scorecard("first"), pointing]))
    assert [receipt.result for receipt in made] == ["created", "created"]
    assert await ledger.read("first") == scorecard("first")


async def test_policies_stand_by_digest_and_once(ledger: Ledger, proven: Proven) -> None:
    again = await ledger.register_policy(POLICY.document, "2027-01-01T00:00:00.000Z")
    assert again.result == "exists"
    assert again.record["created_at"] == CREATED_AT
    assert again.record["evaluation_id"] == f"policy:{POLICY.digest}"
    assert await ledger.policy(POLICY.digest) == POLICY.document
    assert await ledger.policy("00" * 32) is None
    assert await proven(ledger, again)


@pytest.mark.parametrize(
    ("policy", "created_at", "field"),
    [({"name": "x"}, CREATED_AT, "policy."), ([], CREATED_AT, "policy"), (None, "now", "created_at")],
)
async def test_what_is_no_policy_is_refused(ledger: Ledger, policy: Any, created_at: str, field: str) -> None:
    other = {**POLICY.document, "name": "other"} if policy is None else policy
    with pytest.raises(LedgerRefused) as caught:
        await ledger.register_policy(other, created_at)
    assert caught.value.field.startswith(field)


async def test_runs_and_reviews_stand_without_a_policy(ledger: Ledger, proven: Proven) -> None:
    digest = "cd" * 32
    run = {
        "kind": "run",
        "schema_version": "1",
        "evaluation_id": f"run:{digest}",
        "digest": digest,
        "refers_to": None,
        "created_at": CREATED_AT,
    }
    (receipt,) = receipts(await ledger.append([run]))
    assert receipt.result == "created"
    assert await proven(ledger, receipt)


async def test_an_unknown_id_is_none(ledger: Ledger) -> None:
    assert await ledger.read("nobody") is None
    assert await ledger.prove("nobody") is None


async def test_a_proof_can_be_asked_for_later(ledger: Ledger, proven: Proven) -> None:
    record = scorecard("early")
    await ledger.append([record])
    for n in range(20):
        await ledger.append([scorecard(f"later-{n}")])
    receipt = await ledger.prove("early")
    assert receipt is not None
    assert receipt.record == record
    assert await proven(ledger, receipt)


async def test_everything_is_there_after_closing_and_opening(opener: Opener, proven: Proven, tmp_path: Path) -> None:
    async with opener(tmp_path) as ledger:
        await ledger.register_policy(POLICY.document, CREATED_AT)
        await ledger.append([scorecard("e")])
    async with opener(tmp_path) as ledger:
        assert await ledger.policy(POLICY.digest) == POLICY.document
        again, new = receipts(await ledger.append([scorecard("e"), scorecard("f")]))
        assert (again.result, new.result) == ("exists", "created")
        assert await proven(ledger, again)
        assert await proven(ledger, new)


async def test_a_receipt_is_plain_json_with_the_digest_of_its_record(ledger: Ledger, backend: Backend) -> None:
    (receipt,) = receipts(await ledger.append([scorecard("e")]))
    assert receipt.evaluation_id == "e"
    assert receipt.result == "created"
    assert receipt.record_digest == sha256_hex(record_bytes(receipt.record))
    assert receipt.ledger == backend.name
    assert strict_loads(canonical(dict(receipt.proof))) == receipt.proof
