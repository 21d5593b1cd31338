"""The proof bundle: one file with which anybody can check a record without us.

Canonical JSON with the keys `schema_version`, `record`, `policy` (null for a run or a review), `ledger` and, under
that name, the proof that the receipt carries; with evidence also `salt` (hexadecimal), `request`, `evidence`
(worker kind -> what that kind found) and, where all of them are still there, `raw`: the raw model outputs that the
evidence cites (SHA-256 -> base64). Read back by `ledger.verify`.

A Merkle proof has `origin`, `index`, `tree_size`, `path` (hexadecimal, leaf to root) and `checkpoint` (signed note).
A Fabric proof has `channel`, `chaincode`, `tx_id`, `block_number`, `transaction`: the base64 of the protobuf
ProcessedTransaction that holds the record in its write set, with the endorsers' signatures over it; and, where enough
peers were there to give it, `reading`: the base64 of an Envelope in which endorsers say, signed, that they read the
record as it stands, by which transaction and in which block it was written. A receipt has neither (a transaction is
that of a whole batch): `glassbox proof` fetches them. Without a reading, `block_number` and that the transaction was
valid are the word of the peer that was asked. Certificates are judged at the time in the transaction, which its
sender wrote, because years later all of them have expired; revocation lists are not part of it.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassbox.contract.canonical import canonical
from ledger.port import Receipt
from ledger.verify import SCHEMA_VERSION


@dataclass(frozen=True)
class Disclosure:
    """What opens a record's digests: the content itself. `evidence`: worker kind -> evidence it counted. `raw`: every
    raw output that it cites, by SHA-256; None where one is lost."""

    salt: bytes
    request: Mapping[str, Any]
    evidence: Mapping[str, Any]
    raw: Mapping[str, bytes] | None = None


def make_bundle(receipt: Receipt, policy: Mapping[str, Any] | None, disclosure: Disclosure | None = None) -> bytes:
    """The bundle of a receipt. `policy`: the canonical policy that the record cites (a scorecard's, a policy's)."""
    bundle: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "record": dict(receipt.record),
        "policy": None if policy is None else dict(policy),
        "ledger": receipt.ledger,
        receipt.ledger: dict(receipt.proof),
    }
    if disclosure is not None:
        bundle["salt"] = disclosure.salt.hex()
        bundle["request"] = dict(disclosure.request)
        bundle["evidence"] = dict(disclosure.evidence)
        if disclosure.raw is not None:
            bundle["raw"] = {digest: base64.b64encode(raw).decode() for digest, raw in disclosure.raw.items()}
    return canonical(bundle)
