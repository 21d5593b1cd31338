"""A Fabric proof holds as the peers endorsed it, and no other way."""

import base64
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fabric_protos.peer import transaction_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbox.contract.canonical import canonical, sha256_hex, strict_loads
from glassbox.contract.record import record_bytes, reference_record
from ledger import verify
from ledger.bundle import make_bundle
from ledger.checkpoint import KeyFormatError
from ledger.fabric import proof
from ledger.fabric.gateway import Deadlines
from ledger.fabric.ledger import FabricLedger
from ledger.fabric.trust import Trust
from ledger.port import Receipt
from ledger.verify import exit_code, summary, verify_bundle
from tests.ledger.fabric.fixtures import BUILD_TIMEOUT
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.transactions import CHAINCODE, CHANNEL, NOW, Draft, Member, Organisation, issue
from tests.ledger.records import CREATED_AT, POLICY, scorecard

ONE, TWO = Organisation("Org1MSP"), Organisation("Org2MSP")
RECORDS = [scorecard(f"e:{n}") for n in range(3)]
RECORD = RECORDS[1]
KEY = f"record/{RECORD['evaluation_id']}"
BOTH = [ONE.peer, TWO.peer]


def trust(*organisations: Organisation, endorsements: int | None = None) -> Trust:
    return Trust({each.msp_id: [each.root.pem] for each in organisations}, endorsements)


def draft(endorsers: Sequence[Member] = BOTH, **lies: Any) -> Draft:
    return Draft(**{"records": RECORDS, "sender": ONE.client, "endorsers": endorsers, **lies})


def reading(endorsers: Sequence[Member] = BOTH, record: Mapping[str, Any] = RECORD, **lies: Any) -> str:
    """The record as the endorsers read it in block 7, base64."""
    answer = lies.pop("answer", [{"record": record, "tx_id": draft().true_id}])
    reads = {f"record/{record['evaluation_id']}": 7}
    fields = {"records": [], "answer": canonical(answer), "reads": reads, "writes": [], **lies}
    return base64.b64encode(draft(endorsers, **fields).envelope()).decode()


def bundle(raw: bytes | None, record: Mapping[str, Any] = RECORD, **changes: Any) -> bytes:
    """With a reading by both organisations; `reading=None`: without."""
    fields = {"channel": CHANNEL, "chaincode": CHAINCODE, "tx_id": draft().true_id, "block_number": 7}
    if raw is not None:
        fields["transaction"] = base64.b64encode(raw).decode()
    fields = {**fields, "reading": reading(record=record), **changes}
    if fields["reading"] is None:
        del fields["reading"]
    receipt = Receipt("exists", record, sha256_hex(record_bytes(record)), "fabric", fields)
    return make_bundle(receipt, POLICY.document)


def line(raw: bytes, trusted: Trust | None = None) -> str:
    return summary(verify_bundle(raw, [], trusted or trust(ONE, TWO)))


TRANSACTION = draft().processed()


def test_an_honest_transaction_holds_and_says_what_was_checked_and_what_is_a_peers_word() -> None:
    steps = verify_bundle(bundle(TRANSACTION), [], trust(ONE, TWO))
    assert exit_code(steps) == 0
    assert summary(steps) == (
        "holds: a proof bundle; policy as cited; record e:1 (trust 0.912345, fail) follows from its parts; "
        f"transaction {draft().true_id} of scorecards on channel glassbox; it creates this record; "
        "sent by User1@Org1MSP of Org1MSP; marked valid; "
        "endorsed by Org1MSP, Org2MSP (certificates as of 2026-01-31T09:30:02Z, the sender's word); "
        "valid in block 7, where Org1MSP, Org2MSP read the record (2026-01-31T09:30:02Z, the reader's word)"
    )
    assert [step.name for step in steps[3:]] == [
        "transaction",
        "write",
        "sender",
        "validity",
        "endorsements",
        "reading",
    ]


def test_every_record_of_the_batch_is_proven_by_the_same_transaction() -> None:
    assert all(line(bundle(TRANSACTION, record)).startswith("holds: ") for record in RECORDS)


@pytest.mark.parametrize("kind", ["run", "review", "policy"])
def test_a_record_that_is_answered_alone_is_proven_too(kind: str) -> None:
    digest = POLICY.digest if kind == "policy" else "cd" * 32
    record = {
        "kind": kind,
        "schema_version": "1",
        "evaluation_id": f"{kind}:{digest}",
        "digest": digest,
        "refers_to": "e:1" if kind == "review" else None,
        "created_at": "2026-01-31T09:30:02.000Z",
    }
    answer = canonical({"evaluation_id": record["evaluation_id"], "result": "created"})
    made = draft(records=[record], answer=answer)
    proven = strict_loads(bundle(made.processed(), record))
    if kind != "policy":
        proven["policy"] = None
    assert line(canonical(proven)).startswith("holds: ")


LIES: list[tuple[dict[str, Any], str]] = [
    ({"tx_id": "00" * 32}, "(transaction): the transaction id is not the digest of nonce and sender"),
    ({"header_type": 1}, "(transaction): it is no transaction of a chaincode"),
    ({"channel": "other"}, "(transaction): the proof names another channel than the transaction, other"),
    ({"chaincode": "other"}, "(transaction): the proof names another chaincode than the transaction, other"),
    ({"proposal_hash": bytes(32)}, "(transaction): what was endorsed answers another proposal"),
    ({"action_header": b""}, "(transaction): the action is another sender's"),
    ({"actions": 0}, "(transaction): the transaction has 0 actions"),
    ({"actions": 2}, "(transaction): the transaction has 2 actions"),
    ({"invoked": "other"}, "(transaction): the transaction does not name one chaincode throughout"),
    ({"answered_by": "other"}, "(transaction): the transaction does not name one chaincode throughout"),
    ({"status": 500}, "(transaction): the chaincode refused: status 500"),
    ({"status": 0}, "(transaction): the chaincode refused: status 0"),
    ({"answer": b"created"}, "(transaction): what the chaincode answered is not JSON"),
    ({"answer": b"[null,7,{}]"}, "(write): the chaincode did not answer that it created this record"),
    ({"answer": b'{"evaluation_id":"e:1","result":"exists"}'}, "(write): the chaincode did not answer"),
    ({"answer": b'[{"evaluation_id":"e:2","result":"created"}]'}, "(write): the chaincode did not answer"),
    ({"writes": []}, "(write): the transaction does not write record/e:1"),
    ({"writes": [("other", KEY, record_bytes(RECORD), False)]}, "(write): the transaction does not write"),
    ({"writes": [(CHAINCODE, KEY, b"{}", False)]}, "(write): the transaction writes other bytes"),
    ({"writes": [(CHAINCODE, KEY, record_bytes(RECORD), True)]}, "(write): the transaction writes other bytes"),
    (
        {"writes": [(CHAINCODE, KEY, record_bytes(RECORD), False)] * 2},
        "(transaction): record/e:1 is written twice",
    ),
    ({"envelope_signature": b""}, "(sender): the signature of User1@Org1MSP of Org1MSP over the transaction"),
    ({"envelope_signature": TWO.client.sign(b"")}, "(sender): the signature of User1@Org1MSP of Org1MSP over"),
    (
        {"validation": transaction_pb2.MVCC_READ_CONFLICT},
        "(validity): the transaction was not valid in its block (MVCC_READ_CONFLICT): it wrote nothing",
    ),
    ({"validation": 77}, "(validity): the transaction was not valid in its block (code 77)"),
    ({"time": Timestamp(seconds=2**60)}, "(transaction): the transaction's time is none"),
    ({"endorsers": [ONE.peer] * 257}, "(transaction): the transaction has more than 256 endorsements"),
]


@pytest.mark.parametrize(("lie", "reason"), LIES)
def test_a_lie_is_named_even_where_everybody_signs_it(lie: dict[str, Any], reason: str) -> None:
    assert line(bundle(draft(**lie).processed())).startswith(f"does not hold {reason}")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"channel": "other"}, "the proof names another channel"),
        ({"chaincode": "other"}, "the proof names another chaincode"),
        ({"tx_id": "00" * 32}, "the proof names another tx_id"),
        ({"transaction": "!"}, "fabric.transaction is not base64"),
        ({"transaction": "AA=="}, "the processed transaction is no protobuf ProcessedTransaction"),
        ({"transaction": ""}, "it is no transaction of a chaincode"),
    ],
)
def test_the_proof_around_the_transaction_is_checked(change: dict[str, Any], reason: str) -> None:
    assert line(bundle(TRANSACTION, **change)).startswith(f"does not hold (transaction): {reason}")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"block_number": "7"}, "fabric.block_number: a whole number"),
        ({"tx_id": "short"}, "fabric.tx_id: 64 lower-case hexadecimal digits"),
        ({"channel": 7}, "fabric.channel: text"),
        ({"transaction": None}, "fabric.transaction: text"),
        ({"surprise": 1}, "fabric.surprise: no such field"),
    ],
)
def test_the_form_of_a_proof_is_as_published(change: dict[str, Any], reason: str) -> None:
    assert line(bundle(TRANSACTION, **change)).startswith(f"does not hold (format): {reason}")


def test_a_receipt_without_its_transaction_says_how_to_get_it() -> None:
    assert line(bundle(None)) == (
        "cannot tell (transaction): the transaction is not in the bundle: fetch it with glassbox proof e:1"
    )


def test_another_record_cannot_be_slipped_in() -> None:
    other = {**RECORD, "model": None}
    assert line(bundle(TRANSACTION, other)).startswith("does not hold (write): the transaction writes other bytes")


@given(st.integers(0, len(TRANSACTION) - 1), st.integers(1, 255))
@settings(max_examples=200)
def test_no_byte_of_the_transaction_can_be_changed(position: int, bits: int) -> None:
    changed = TRANSACTION[:position] + bytes([TRANSACTION[position] ^ bits]) + TRANSACTION[position + 1 :]
    assert line(bundle(changed)).startswith("does not hold")


@given(st.binary(max_size=300))
def test_garbage_is_an_answer_and_not_a_crash(raw: bytes) -> None:
    assert line(bundle(raw)).startswith("does not hold")


def test_nested_groups_without_end_are_an_answer() -> None:
    assert line(bundle(b"\x0b" * 100_000)).startswith("does not hold (transaction): the processed transaction is no")


def test_a_transaction_beyond_what_fabric_carries_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "MAX_TRANSACTION", 100)
    assert line(bundle(TRANSACTION)).startswith("does not hold (transaction): the transaction is longer than 100")


# What its validity and its block rest on


def test_a_reading_makes_validity_and_block_the_endorsers_word() -> None:
    later = Timestamp(seconds=int((NOW + timedelta(days=30)).timestamp()))
    assert line(bundle(TRANSACTION, reading=reading(time=later))).endswith(
        "; valid in block 7, where Org1MSP, Org2MSP read the record (2026-03-02T09:30:02Z, the reader's word)"
    )
    once = bundle(TRANSACTION, reading=reading([TWO.peer]))
    assert "; valid in block 7, where Org2MSP read the record (" in line(once, trust(TWO))
    assert "; valid in block 7, where Org2MSP read the record (" in line(once, trust(ONE, TWO, endorsements=1))


NOBODY_SIGNED = (
    "cannot tell (reading): everything else holds, but nobody whom you named signed that the transaction became valid: "
    "it is the word of whoever made this file; fetch the proof again where enough peers answer (glassbox proof e:1), "
    "or say --unsigned-validity to accept it"
)


def test_an_envelope_that_was_never_submitted_proves_nothing() -> None:
    """Two that contradict each other, both endorsed, can be wrapped so by whoever had them endorsed."""
    other = {**RECORD, "model": None}
    for record in (RECORD, other):
        wrapped = bundle(draft(records=[record]).processed(), record, reading=None, block_number=12345)
        steps = verify_bundle(wrapped, [], trust(ONE, TWO))
        assert (exit_code(steps), summary(steps)) == (2, NOBODY_SIGNED)
        assert all(step.holds for step in steps[:-1])


@pytest.mark.parametrize(
    ("read_by", "said"),
    [
        ([], "nobody whom you named"),
        ([Organisation("Org3MSP").peer], "nobody whom you named"),
        ([TWO.peer], "only Org2MSP of those whom you ask for"),
        ([TWO.peer, TWO.peer], "only Org2MSP of those whom you ask for"),
    ],
)
def test_a_reading_that_too_few_signed_is_none(read_by: list[Member], said: str) -> None:
    made = bundle(TRANSACTION, reading=reading(read_by))
    assert line(made) == NOBODY_SIGNED.replace("nobody whom you named", said)
    accepting = replace(trust(ONE, TWO), unsigned_validity=True)
    assert line(made, accepting).endswith("; valid in block 7 by the word of whoever made this file")


def test_whoever_accepts_unsigned_validity_is_told_whose_word_it_is() -> None:
    accepting = replace(trust(ONE, TWO), unsigned_validity=True)
    steps = verify_bundle(bundle(TRANSACTION, reading=None, block_number=8), [], accepting)
    assert exit_code(steps) == 0
    assert summary(steps).endswith("; valid in block 8 by the word of whoever made this file")
    assert "read the record" in line(bundle(TRANSACTION), accepting)
    assert line(bundle(TRANSACTION, block_number=8), accepting).startswith("does not hold (validity)")


@pytest.mark.parametrize("name", ["channel", "chaincode"])
def test_another_channel_or_chaincode_than_the_one_asked_for_does_not_hold(name: str) -> None:
    here = {"channel": CHANNEL, "chaincode": CHAINCODE}[name]
    assert line(bundle(TRANSACTION), replace(trust(ONE, TWO), **{name: here})).startswith("holds: ")
    assert line(bundle(TRANSACTION), replace(trust(ONE, TWO), **{name: "another"})) == (
        f"does not hold (transaction): the transaction's {name} is {here}, and you ask for another"
    )


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"reads": {KEY: 8}}, "the endorsers did not read the record as one of this block"),
        ({"reads": {KEY: None}}, "the endorsers did not read the record as one of this block"),
        ({"reads": {"record/e:2": 7}}, "the endorsers did not read the record as one of this block"),
        ({"reads": {}}, "the endorsers did not read the record as one of this block"),
        ({"answer": [None]}, "the endorsers did not read this record as one of this transaction"),
        ({"answer": [{"record": RECORD, "tx_id": "00" * 32}]}, "the endorsers did not read this record"),
        ({"answer": [{"record": RECORDS[0], "tx_id": draft().true_id}]}, "the endorsers did not read this record"),
        ({"answer": [{"record": 7, "tx_id": draft().true_id}]}, "the endorsers did not read this record"),
        ({"answer": {"tx_id": draft().true_id}}, "the endorsers did not read this record"),
        ({"channel": "other"}, "the proof names another channel than the transaction, other"),
        ({"chaincode": "other"}, "the proof names another chaincode than the transaction, other"),
        ({"proposal_hash": bytes(32)}, "what was endorsed answers another proposal"),
    ],
)
def test_a_reading_that_says_something_else_does_not_hold(lie: dict[str, Any], reason: str) -> None:
    assert line(bundle(TRANSACTION, reading=reading(**lie))).startswith(f"does not hold (validity): {reason}")


def test_a_forged_reading_does_not_hold() -> None:
    assert line(bundle(TRANSACTION, reading=reading([ONE.client]))).startswith(
        "does not hold (reading): User1@Org1MSP of Org1MSP is no peer"
    )


READING = base64.b64decode(reading())


@given(st.integers(0, len(READING) - 1), st.integers(1, 255))
def test_no_endorsed_byte_of_a_reading_can_be_changed(position: int, bits: int) -> None:
    """Who asked has signed it too, which nobody needs: a byte changed there is the one that may pass."""
    changed = READING[:position] + bytes([READING[position] ^ bits]) + READING[position + 1 :]
    found = line(bundle(TRANSACTION, reading=base64.b64encode(changed).decode()))
    refused = ("does not hold (validity)", "does not hold (reading)", "cannot tell (reading)")
    assert found.startswith(refused) or found == line(bundle(TRANSACTION))


@pytest.mark.parametrize("text", ["!", "AA==", "", base64.b64encode(TRANSACTION).decode()])
def test_garbage_for_a_reading_does_not_hold(text: str) -> None:
    assert line(bundle(TRANSACTION, reading=text)).startswith("does not hold (validity): ")


# Who vouches for it


def test_without_roots_everything_else_is_checked_and_the_organisations_are_named() -> None:
    steps = verify_bundle(bundle(TRANSACTION), [])
    assert exit_code(steps) == 2
    assert summary(steps) == (
        "cannot tell (endorsements): all else holds, but the transaction is endorsed by Org1MSP, Org2MSP, "
        "whom you did not name: use --root MSPID=FILE.pem"
    )
    assert line(bundle(draft(writes=[]).processed()), Trust({})).startswith("does not hold (write)")


def test_every_organisation_named_must_have_endorsed() -> None:
    once = bundle(draft([ONE.peer]).processed())
    assert line(once, trust(ONE)).startswith("holds: ")
    assert line(once).startswith("does not hold (endorsements): Org2MSP did not endorse it: --root names those who")
    assert line(once, trust(ONE, TWO, endorsements=1)).startswith("holds: ")
    assert line(bundle(TRANSACTION), trust(TWO)).startswith("holds: ")


def test_two_organisations_are_two() -> None:
    both = trust(ONE, TWO, endorsements=2)
    assert line(bundle(TRANSACTION), both).startswith("holds: ")
    assert line(bundle(draft([ONE.peer]).processed()), both).startswith(
        "does not hold (endorsements): the transaction is endorsed by 1 of the 2 organisations"
    )
    other = issue("Org1MSP", "peer1.Org1MSP", ONE.root, ["peer"])
    for twice in ([ONE.peer, ONE.peer], [ONE.peer, other]):
        assert line(bundle(draft(twice).processed()), both).startswith("does not hold (endorsements)"), twice


def test_an_endorsement_that_nobody_can_judge_is_not_counted() -> None:
    assert line(bundle(TRANSACTION), trust(ONE, Organisation("Org3MSP"), endorsements=2)) == (
        "does not hold (endorsements): the transaction is endorsed by 1 of the 2 organisations that you ask for "
        "(Org1MSP)"
    )


def test_a_transaction_that_nobody_endorsed_does_not_hold() -> None:
    for trusted in (trust(ONE, TWO), Trust({})):
        assert line(bundle(draft([]).processed()), trusted) == (
            "does not hold (endorsements): the transaction is endorsed by nobody"
        )


def test_a_forged_endorser_is_named() -> None:
    impostor = issue("Org2MSP", "peer0.Org2MSP", issue("Org2MSP", "ca.Org2MSP"), ["peer"])
    stolen = Member("Org2MSP", TWO.peer.certificate, impostor.key)
    cases = {
        impostor: "the certificate of peer0.Org2MSP of Org2MSP does not hold: ",
        stolen: "the signature of peer0.Org2MSP of Org2MSP over the endorsement does not verify",
        Member("Org2MSP", ONE.peer.certificate, ONE.peer.key): "the certificate of peer0.Org1MSP of Org2MSP does not",
        TWO.client: "User1@Org2MSP of Org2MSP is no peer: its certificate says client",
        issue("Org2MSP", "x", TWO.root): "x of Org2MSP is no peer: its certificate says nothing",
        issue("Org2MSP", "x", TWO.root, ["admin", "peer"]): "x of Org2MSP is no peer: its certificate says admin and",
        TWO.root: "ca.Org2MSP of Org2MSP is no peer",
        issue("Org2MSP", "x", TWO.peer, ["peer"]): "the certificate of x of Org2MSP does not hold: ",
        issue("Org2MSP", "x", TWO.root, ["peer"], curve=ec.SECP384R1()): "the key of x of Org2MSP is not ECDSA P-256",
        Member("Org2MSP", TWO.peer.certificate, TWO.peer.key, high_s=True): "the signature of peer0.Org2MSP of Org2MSP "
        "over the endorsement has a high S",
    }
    for forger, reason in cases.items():
        found = line(bundle(draft([ONE.peer, forger]).processed()))
        assert found.startswith(f"does not hold (endorsements): {reason}"), found


def test_certificates_are_judged_at_the_transactions_time() -> None:
    expired = issue("Org2MSP", "x", TWO.root, ["peer"], start=NOW - timedelta(days=1), days=0)
    future = issue("Org2MSP", "x", TWO.root, ["peer"], start=NOW + timedelta(hours=1))
    for member in (expired, future):
        found = line(bundle(draft([ONE.peer, member]).processed()))
        assert found.startswith("does not hold (endorsements): the certificate of x of Org2MSP does not hold: "), found
        assert "not valid at validation time (2026-01-31T09:30:02Z)" in found
    years_ago = Timestamp(seconds=int((NOW - timedelta(days=3650)).timestamp()))
    assert "(2016-02-03T09:30:02Z)" in line(bundle(draft(time=years_ago).processed()))


def test_another_root_of_the_same_name_is_another_organisation() -> None:
    assert line(bundle(TRANSACTION), trust(ONE, Organisation("Org2MSP"))).startswith(
        "does not hold (endorsements): the certificate of peer0.Org2MSP of Org2MSP does not hold: not issued by the "
        "authorities that you named for Org2MSP (2026-01-31T09:30:02Z)"
    )


def test_intermediates_lead_to_their_root_and_no_further() -> None:
    between = issue("Org2MSP", "ica.Org2MSP", TWO.root, authority=True)
    peer = issue("Org2MSP", "peer0.Org2MSP", between, ["peer"])
    made = bundle(draft([peer]).processed())
    assert line(made, Trust({"Org2MSP": [TWO.root.pem + between.pem]})).startswith("holds: ")
    assert line(made, Trust({"Org2MSP": [between.pem, TWO.root.pem]})).startswith("holds: ")
    assert line(made, trust(TWO)).startswith("does not hold (endorsements): the certificate of peer0")
    strange = Organisation("Org2MSP").root.pem
    assert line(made, Trust({"Org2MSP": [strange + between.pem]})).startswith("does not hold (endorsements)")


def test_the_sender_is_checked_where_its_organisation_is_named() -> None:
    impostor = issue("Org1MSP", "User1", issue("Org1MSP", "ca.Org1MSP"), ["client"])
    made = draft(sender=impostor)
    read_so = reading(answer=[{"record": RECORD, "tx_id": made.true_id}])
    proven = bundle(made.processed(), tx_id=made.true_id, reading=read_so)
    assert line(proven).startswith("does not hold (sender): the certificate of User1 of Org1MSP does not hold")
    assert "sent by User1 of Org1MSP (whom you did not name: the signature alone was checked)" in line(
        proven, trust(TWO)
    )
    loose = replace(ONE.client, high_s=True)
    assert line(bundle(draft(sender=loose).processed())).startswith(
        "does not hold (sender): the signature of User1@Org1MSP of Org1MSP over the transaction has a high S"
    )


@pytest.mark.parametrize(
    ("roots", "endorsements", "reason"),
    [
        ({"Org1MSP": [ONE.root.pem]}, 0, "0 endorsements prove nothing"),
        (
            {"Org1MSP": [ONE.root.pem], "Org2MSP": [TWO.root.pem]},
            3,
            "3 endorsements of 2 named organisations cannot be",
        ),
        ({"Org1MSP": [b"nonsense"]}, None, "what is given for Org1MSP is no PEM file"),
        ({"Org1MSP": []}, None, "what is given for Org1MSP holds no root"),
        ({"Org1MSP": [ONE.peer.pem]}, None, "peer0.Org1MSP is no certificate authority"),
        (
            {"Org1MSP": [issue("Org1MSP", "ica", ONE.root, authority=True).pem]},
            None,
            "what is given for Org1MSP holds no root",
        ),
    ],
)
def test_a_root_that_is_none_is_the_callers_mistake(
    roots: dict[str, list[bytes]], endorsements: int | None, reason: str
) -> None:
    with pytest.raises(KeyFormatError, match=reason):
        Trust(roots, endorsements)


# From a network


@pytest.fixture
async def fetched(fabric_of_two: TestNetwork, tmp_path: Path) -> AsyncIterator[dict[str, Receipt]]:
    """Of two organisations that must both endorse: receipts as `prove` answers them."""
    admin = FabricLedger(fabric_of_two.profile("Admin"), tmp_path / "admin")
    ledger = FabricLedger(fabric_of_two.profile(), tmp_path / "pending")
    try:
        await admin.register_policy(POLICY.document, CREATED_AT)
        run = reference_record("run", "cd" * 32, CREATED_AT)
        await ledger.append([*RECORDS, run])
        found = [await ledger.prove(name) for name in ("e:0", "e:2", f"run:{'cd' * 32}", f"policy:{POLICY.digest}")]
        yield {receipt.evaluation_id: receipt for receipt in found if receipt is not None}
    finally:
        await ledger.close()
        await admin.close()


async def test_what_a_network_hands_out_holds(fabric_of_two: TestNetwork, fetched: dict[str, Receipt]) -> None:
    roots = {each.msp_id: [each.ca.root.certificate_pem] for each in fabric_of_two.organizations}
    assert len(fetched) == 4
    for receipt in fetched.values():
        policy = None if receipt.record["kind"] == "run" else POLICY.document
        found = line(make_bundle(receipt, policy), Trust(roots, 2))
        assert found.startswith("holds: "), found
        assert "endorsed by Org1MSP, Org2MSP (" in found
        assert f"valid in block {receipt.proof['block_number']}, where Org1MSP, Org2MSP read the record (" in found
        sender = "Admin" if receipt.record["kind"] == "policy" else "User1"
        assert f"sent by {sender}@org1.example.com of Org1MSP" in found
    other = {**fetched["e:0"].record, "model": None}
    mixed = Receipt("exists", other, fetched["e:0"].record_digest, "fabric", fetched["e:0"].proof)
    assert line(make_bundle(mixed, POLICY.document), Trust(roots)).startswith("does not hold (write)")
    assert line(make_bundle(fetched["e:0"], POLICY.document)).startswith("does not hold (sender): the certificate of")


@pytest.mark.timeout(BUILD_TIMEOUT)
async def test_a_proof_comes_without_a_reading_where_too_few_peers_are_there(
    fabric_of_two: TestNetwork, fetched: dict[str, Receipt], tmp_path: Path
) -> None:
    fabric_of_two.peers[1].close()
    ledger = FabricLedger(fabric_of_two.profile(), tmp_path / "again", deadlines=Deadlines(endorse=5))
    receipt = await ledger.prove("e:0")
    await ledger.close()
    assert receipt is not None
    assert "reading" not in receipt.proof
    roots = {each.msp_id: [each.ca.root.certificate_pem] for each in fabric_of_two.organizations}
    steps = verify_bundle(make_bundle(receipt, POLICY.document), [], Trust(roots))
    assert (exit_code(steps), steps[-1].name) == (2, "reading")
    found = line(make_bundle(receipt, POLICY.document), Trust(roots, unsigned_validity=True))
    assert found.endswith(f"; valid in block {receipt.proof['block_number']} by the word of whoever made this file")


# The commands


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "proof.json").write_bytes(bundle(TRANSACTION))
    (tmp_path / "one.pem").write_bytes(ONE.root.pem)
    (tmp_path / "two.pem").write_bytes(TWO.root.pem)
    return tmp_path


def test_the_command_takes_roots(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [f"--root=Org1MSP={files}/one.pem", f"--root=Org2MSP={files}/two.pem"]
    file = str(files / "proof.json")
    assert verify.main([file, *both, "--endorsements", "2"]) == 0
    assert capsys.readouterr().out == line(bundle(TRANSACTION)) + "\n"
    assert verify.main([file]) == 2
    assert "Org1MSP, Org2MSP, whom you did not name" in capsys.readouterr().out
    assert verify.main([file, f"--root=Org1MSP={files}/two.pem"]) == 1
    capsys.readouterr()
    assert verify.main([file, f"--root={files}/one.pem"]) == 2
    assert "has the form MSPID=FILE.pem" in capsys.readouterr().err
    assert verify.main([file, *both, "--endorsements", "3"]) == 2
    assert "3 endorsements of 2 named organisations cannot be" in capsys.readouterr().err
    assert verify.main([file, *both, "--channel", CHANNEL, "--chaincode", CHAINCODE]) == 0
    assert verify.main([file, *both, "--chaincode", "another"]) == 1
    assert verify.main([file, *both, "--channel", "another"]) == 1
    (files / "proof.json").write_bytes(bundle(TRANSACTION, reading=None))
    capsys.readouterr()
    assert verify.main([file, *both]) == 2
    assert capsys.readouterr().out == NOBODY_SIGNED + "\n"
    assert verify.main([file, *both, "--unsigned-validity"]) == 0
    assert verify.main([file, "--root=Org1MSP=absent.pem"]) == 2
    assert capsys.readouterr().err == "cannot tell: absent.pem: No such file or directory\n"


def test_one_organisation_may_have_two_roots(files: Path) -> None:
    roots = [f"Org1MSP={files}/two.pem", f"Org1MSP={files}/one.pem"]
    assert line(bundle(draft([ONE.peer]).processed()), Trust.from_options(roots)).startswith("holds: ")


def test_the_users_command_takes_roots_too(files: Path) -> None:
    command = [sys.executable, "-m", "glassbox.cli", "verify", str(files / "proof.json")]
    roots = ["--root", f"Org1MSP={files}/one.pem", "--root", f"Org2MSP={files}/two.pem"]
    done = subprocess.run([*command, *roots], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, line(bundle(TRANSACTION)) + "\n"), done.stderr
    elsewhere = subprocess.run([*command, *roots, "--channel", "another", "--chaincode", CHAINCODE], check=False)
    assert elsewhere.returncode == 1
    (files / "proof.json").write_bytes(bundle(TRANSACTION, reading=None))
    unsigned = subprocess.run([*command, *roots], capture_output=True, text=True, check=False)
    assert (unsigned.returncode, unsigned.stdout) == (2, NOBODY_SIGNED + "\n")
    assert subprocess.run([*command, *roots, "--unsigned-validity"], check=False).returncode == 0
    wrong = subprocess.run([*command, "--root", "Org1MSP"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "glassbox: Org1MSP: an organisation and its root has the form MSPID=FILE.pem\n",
    )
