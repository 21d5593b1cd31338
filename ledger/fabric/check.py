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
    yield "transaction", lambda: _transaction(bundle, trust)
    yield "write", lambda: _write(bundle)
    yield "sender", lambda: _sender(bundle, trust.authorities)
    yield "validity", lambda: _validity(bundle)
    yield "endorsements", lambda: _endorsements(bundle, trust)
    yield "reading", lambda: _reading(bundle, trust)


def _transaction(bundle: Mapping[str, Any], trust: Trust) -> str:
    proof, (found, _) = bundle["fabric"], _processed(bundle)
    _same_place(found, proof)
    for name, here, asked in (
        ("channel", found.channel, trust.channel),
        ("chaincode", found.chaincode, trust.chaincode),
    ):
        if asked is not None and here != asked:
            raise Fails(f"the transaction's {name} is {showable(here)}, and you ask for {showable(asked)}")
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


def _validity(bundle: Mapping[str, Any]) -> str:
    """Nobody signs the mark of a transaction; a reading, where there is one, must say what the bundle says."""
    proof, record, (_, validation) = bundle["fabric"], bundle["record"], _processed(bundle)
    if validation != "VALID":
        raise Fails(f"the transaction was not valid in its block ({validation}): it wrote nothing")
    if "reading" not in proof:
        return "marked valid"
    reading = _read(proof)
    _same_place(reading, proof)
    if reading.reads.get(_key(record)) != proof["block_number"]:
        raise Fails("the endorsers did not read the record as one of this block")
    written = (answer.get("record") for answer in reading.answers() if answer.get("tx_id") == proof["tx_id"])
    if record_bytes(record) not in map(canonical, written):
        raise Fails("the endorsers did not read this record as one of this transaction")
    return "marked valid"


def _reading(bundle: Mapping[str, Any], trust: Trust) -> str:
    """Who signed that the transaction became valid, and in which block: those who read the record there. An envelope
    that was endorsed and never submitted looks the same but for that."""
    proof = bundle["fabric"]
    valid, readers = f"valid in block {proof['block_number']}", list[str]()
    if "reading" in proof:
        reading = _read(proof)
        readers = endorsed(reading, trust.authorities).by
        if len(readers) >= trust.required:
            return f"{valid}, where {', '.join(readers)} read the record ({_shown(reading.time)}, the reader's word)"
    if trust.unsigned_validity:
        return f"{valid} by the word of whoever made this file"
    signed = f"only {', '.join(readers)} of those whom you ask for" if readers else "nobody whom you named"
    raise CannotTell(
        f"everything else holds, but {signed} signed that the transaction became valid: it is the word of whoever made "
        "this file; fetch the proof again where enough peers answer "
        f"(glassbox proof {bundle['record']['evaluation_id']}), or say --unsigned-validity to accept it"
    )


def _endorsements(bundle: Mapping[str, Any], trust: Trust) -> str:
    found, _ = _processed(bundle)
    if not found.endorsements:
        raise Fails("the transaction is endorsed by nobody")
    by, unnamed = endorsed(found, trust.authorities)
    if not trust.roots:
        raise CannotTell(
            f"all else holds, but the transaction is endorsed by {', '.join(map(showable, unnamed))}, whom you did not "
            "name: use --root MSPID=FILE.pem"
        )
    if trust.endorsements is None and (absent := sorted(trust.roots.keys() - by)):
        raise Fails(
            f"{', '.join(absent)} did not endorse it: --root names those who must have; if fewer of them are enough, "
            "say how many with --endorsements"
        )
    if len(by) < trust.required:
        count = f"{len(by)} of the {trust.required} organisations that you ask for ({', '.join(by) or 'none'})"
        raise Fails(f"the transaction is endorsed by {count}")
    return f"endorsed by {', '.join(by)} (certificates as of {_shown(found.time)}, the sender's word)"


def _processed(bundle: Mapping[str, Any]) -> tuple[Transaction, str]:
    proof = bundle["fabric"]
    if "transaction" not in proof:
        raise CannotTell(
            f"the transaction is not in the bundle: fetch it with glassbox proof {bundle['record']['evaluation_id']}"
        )
    return read_processed(decoded(proof["transaction"], "fabric.transaction"))


def _read(proof: Mapping[str, Any]) -> Transaction:
    return read(decoded(proof["reading"], "fabric.reading"))


def _same_place(found: Transaction, proof: Mapping[str, Any]) -> None:
    for name, other in (("channel", found.channel), ("chaincode", found.chaincode)):
        if other != proof[name]:
            raise Fails(f"the proof names another {name} than the transaction, {showable(other)}")


def _key(record: Mapping[str, Any]) -> str:
    return f"record/{record['evaluation_id']}"


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
