"""The steps in which a bundle's Fabric proof is checked (ledger.verify makes those before them)."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from glassbox.contract.canonical import canonical, showable
from glassbox.contract.record import record_bytes
from ledger.fabric.proof import Transaction, check_sender, endorsed, read, read_processed
from ledger.fabric.trust import Authority, Trust
from ledger.steps import CannotTell, Fails, decoded


def checks(bundle: Mapping[str, Any], trust: Trust | None) -> Iterator[tuple[str, Callable[[], str]]]:
    """Each is made once those before it hold; they raise Fails, CannotTell and ProofError."""
    trust = trust or Trust({})
    yield "transaction", lambda: _transaction(bundle)
    yield "write", lambda: _write(bundle)
    yield "sender", lambda: _sender(bundle, trust.authorities)
    yield "validity", lambda: _validity(bundle, trust.authorities)
    yield "endorsements", lambda: _endorsements(bundle, trust)


def _transaction(bundle: Mapping[str, Any]) -> str:
    proof, (found, _) = bundle["fabric"], _processed(bundle)
    _same_place(found, proof)
    if found.tx_id != proof["tx_id"]:
        raise Fails(f"the proof names another tx_id than the transaction, {found.tx_id}")
    return f"transaction {found.tx_id} of {showable(found.chaincode)} on channel {showable(found.channel)}"


def _write(bundle: Mapping[str, Any]) -> str:
    record, (found, _) = bundle["record"], _processed(bundle)
    key = _key(record)
    if key not in found.writes:
        raise Fails(f"the transaction does not write {key}")
    if found.writes[key] != record_bytes(record):
        raise Fails(f"the transaction writes other bytes under {key}")
    created = (answer.get("evaluation_id") for answer in found.answers() if answer.get("result") == "created")
    if record["evaluation_id"] not in created:
        raise Fails("the chaincode did not answer that it created this record")
    return "it creates this record"


def _sender(bundle: Mapping[str, Any], authorities: Mapping[str, Authority]) -> str:
    found, _ = _processed(bundle)
    known = check_sender(found, authorities)
    return f"sent by {found.sender}" + ("" if known else " (whom you did not name: the signature alone was checked)")


def _validity(bundle: Mapping[str, Any], authorities: Mapping[str, Authority]) -> str:
    proof, (_, validation) = bundle["fabric"], _processed(bundle)
    if validation != "VALID":
        raise Fails(f"the transaction was not valid in its block ({validation}): it wrote nothing")
    where = f"valid in block {proof['block_number']}"
    readers, time = _read_by(bundle, authorities) if "reading" in proof else ([], None)
    if time is None or not readers:
        return f"{where} by the word of the peer that was asked"
    return f"{where}, where {', '.join(readers)} read the record ({_shown(time)}, the reader's word)"


def _read_by(bundle: Mapping[str, Any], authorities: Mapping[str, Authority]) -> tuple[list[str], datetime]:
    """Which of the named organisations say, by their peers' signatures, that this record stands and was written by
    this transaction in this block; and when, as whoever asked them wrote."""
    proof, record = bundle["fabric"], bundle["record"]
    reading = read(decoded(proof["reading"], "fabric.reading"))
    _same_place(reading, proof)
    if reading.reads.get(_key(record)) != proof["block_number"]:
        raise Fails("the endorsers did not read the record as one of this block")
    written = (answer.get("record") for answer in reading.answers() if answer.get("tx_id") == proof["tx_id"])
    if record_bytes(record) not in map(canonical, written):
        raise Fails("the endorsers did not read this record as one of this transaction")
    return endorsed(reading, authorities).by, reading.time


def _endorsements(bundle: Mapping[str, Any], trust: Trust) -> str:
    found, _ = _processed(bundle)
    if not found.endorsements:
        raise Fails("the transaction is endorsed by nobody")
    by, unnamed = endorsed(found, trust.authorities)
    others = f"{', '.join(map(showable, unnamed))}, whom you did not name: use --root MSPID=FILE.pem"
    if not trust.roots:
        raise CannotTell(f"all else holds, but the transaction is endorsed by {others}")
    if trust.endorsements is None and (absent := sorted(trust.roots.keys() - by)):
        raise Fails(
            f"{', '.join(absent)} did not endorse it: --root names those who must have; if fewer of them are enough, "
            "say how many with --endorsements"
        )
    required = trust.endorsements or len(trust.roots)
    count = f"endorsed by {len(by)} of the {required} organisations that you ask for ({', '.join(by) or 'none'})"
    if len(by) < required <= len(by) + len(unnamed):
        raise CannotTell(f"all else holds, but the transaction is {count} and by {others}")
    if len(by) < required:
        raise Fails(f"the transaction is {count}")
    return f"endorsed by {', '.join(by)} (certificates as of {_shown(found.time)}, the sender's word)"


def _processed(bundle: Mapping[str, Any]) -> tuple[Transaction, str]:
    proof = bundle["fabric"]
    if "transaction" not in proof:
        raise CannotTell(
            f"the transaction is not in the bundle: fetch it with glassbox proof {bundle['record']['evaluation_id']}"
        )
    return read_processed(decoded(proof["transaction"], "fabric.transaction"))


def _same_place(found: Transaction, proof: Mapping[str, Any]) -> None:
    for name, other in (("channel", found.channel), ("chaincode", found.chaincode)):
        if other != proof[name]:
            raise Fails(f"the proof names another {name} than the transaction, {showable(other)}")


def _key(record: Mapping[str, Any]) -> str:
    return f"record/{record['evaluation_id']}"


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
