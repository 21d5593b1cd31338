"""The Merkle log again from its receipts: each says which record stands where, under a checkpoint that the log signed.

What is put back in that order gives the very roots that were signed; in another one it would be another log, and
whoever kept a checkpoint would see a fork.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from glassbox.contract.canonical import sha256_hex, strict_loads
from glassbox.contract.record import record_bytes
from ledger import checkpoint, merkle
from ledger.checkpoint import Checkpoint, CheckpointError, VerifierKey
from ledger.merkle import ProofError
from ledger.merkle_log import MerkleLog
from ledger.port import LedgerUnavailable, Receipt

_BATCH = 256


@dataclass(frozen=True)
class Rebuilt:
    """`added` records were put back, and `size` stand now. `signed`: of how many the largest checkpoint among the
    receipts speaks; with more than `size`, record `size` has no receipt and could not be put back, nor what follows.
    `unproven`: receipts that no key vouches for, or of another log; they count for nothing."""

    added: int
    size: int
    signed: int
    unproven: int


async def rebuild(
    log: MerkleLog,
    keys: Sequence[VerifierKey],
    receipts: Iterable[Receipt],
    policy: Callable[[str], Mapping[str, Any] | None],
) -> Rebuilt:
    """Put back what the log lacks, in the order in which it stood, up to the first record without a receipt.

    `keys`: whose checkpoints count; `receipts`: in any order; `policy`: the canonical policy with a digest. Raises
    LedgerUnavailable, also where the log has gone on by itself and is not the one that signed: nothing is written then.
    """
    first, heads, unproven = await _size(log), dict[int, Checkpoint](), 0
    with closing(sqlite3.connect("")) as kept:  # a file of its own that ends with it: a log may be large
        kept.execute("CREATE TABLE leaves (number INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT")
        signed_by = lru_cache(64)(lambda note: _head(note, keys))
        for receipt in receipts:
            try:
                number, raw, head = _proven(receipt, log.origin, signed_by)
            except (KeyError, TypeError, ValueError, AttributeError):
                unproven += 1
                continue
            heads[head.size] = head
            if number >= first:
                kept.execute("INSERT OR REPLACE INTO leaves VALUES (?, ?)", (number, raw))
        await _check_extends(log, [head for size, head in heads.items() if size <= first])
        size, records = first, _from(kept, first)
        while batch := list(islice(records, _BATCH)):
            size = await _put_back(log, size, batch, policy)
    await _check_extends(log, [head for size_, head in heads.items() if size_ <= size])
    return Rebuilt(size - first, size, max(heads, default=first), unproven)


def _head(note: str, keys: Sequence[VerifierKey]) -> Checkpoint:
    signed = checkpoint.parse(note)
    checkpoint.verify(signed, keys)
    return signed.checkpoint


def _proven(receipt: Receipt, origin: str, signed_by: Callable[[str], Checkpoint]) -> tuple[int, bytes, Checkpoint]:
    """Number and bytes of the record, and the checkpoint by which it stands there. Raises ValueError and what comes of
    a proof of another shape."""
    raw, proof = record_bytes(receipt.record), receipt.proof
    head, number = signed_by(proof["checkpoint"]), proof["index"]
    if (receipt.ledger, head.origin) != ("merkle", origin):
        raise CheckpointError("of another log")
    path = [bytes.fromhex(each) for each in proof["path"]]
    merkle.verify_inclusion(merkle.leaf_hash(raw), number, head.size, path, head.root)
    return number, raw, head


def _from(kept: sqlite3.Connection, first: int) -> Iterator[bytes]:
    """The records from this number on, as far as there is one for each."""
    for expected, (number, raw) in enumerate(kept.execute("SELECT number, record FROM leaves ORDER BY 1"), first):
        if number != expected:
            return
        yield raw


async def _put_back(
    log: MerkleLog, size: int, batch: Sequence[bytes], policy: Callable[[str], Mapping[str, Any] | None]
) -> int:
    """The size of the log with this batch."""
    waiting: list[dict[str, Any]] = []

    async def flush() -> None:
        nonlocal size
        for number, (record, made) in enumerate(zip(waiting, await log.append(waiting), strict=True), size):
            _check_stands(record, made, number)
        size += len(waiting)
        waiting.clear()

    for raw in batch:
        record = strict_loads(raw)
        if record["kind"] != "policy":
            waiting.append(record)
            continue
        await flush()
        digest = record["evaluation_id"].removeprefix("policy:")
        content = policy(digest)
        if content is None:
            raise LedgerUnavailable(
                f"the policy {digest} stood as record {size} and is not at hand: put back the glassbox.toml that had "
                "it, then go on"
            )
        _check_stands(record, await log.register_policy(content, record["created_at"]), size)
        size += 1
    await flush()
    return size


def _check_stands(record: Mapping[str, Any], made: object, number: int) -> None:
    if not isinstance(made, Receipt) or (made.proof["index"], made.record_digest) != (
        number,
        sha256_hex(record_bytes(record)),
    ):
        raise LedgerUnavailable(f"record {number} cannot be put back: its id stands elsewhere in this log")


async def _size(log: MerkleLog) -> int:
    return checkpoint.parse(await log.newest_checkpoint()).checkpoint.size


async def _check_extends(log: MerkleLog, heads: Sequence[Checkpoint]) -> None:
    """Whether the log is the one that signed the largest of these, which covers the others."""
    if not heads:
        return
    old, new = max(heads, key=lambda head: head.size), checkpoint.parse(await log.newest_checkpoint()).checkpoint
    try:
        path = await log.prove_consistency(old.size, new.size)
        merkle.verify_consistency(old.size, new.size, path, old.root, new.root)
    except ProofError:
        raise LedgerUnavailable(
            f"this log is not the one that signed a checkpoint of {old.size} records: something was appended in "
            "another order since; move it away, restore the copy again and rebuild before a committer starts"
        ) from None
