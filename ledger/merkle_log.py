"""The default ledger: an RFC 6962 log in one SQLite file, with a signed checkpoint for every batch.

Records, tree nodes and the checkpoint of a batch are one transaction, so the newest checkpoint always covers
every record that stands, whatever crashes. A process that writes holds a lock; readers need none.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex, strict_loads
from glassbox.contract.record import (
    RecordError,
    check_policy,
    check_scorecard,
    check_shape,
    record_bytes,
    reference_record,
)
from ledger import checkpoint, merkle
from ledger.audit import Audit, audit
from ledger.checkpoint import Checkpoint, CheckpointError, Signer, VerifierKey
from ledger.log_file import LogFile
from ledger.port import (
    AppendResult,
    LedgerRefused,
    LedgerUnavailable,
    Receipt,
    Record,
    Refused,
    UnknownPolicy,
    UnknownReference,
    check_appendable,
)

T = TypeVar("T")
_Result = Literal["created", "exists", "conflict"]


class MerkleLog:
    """A ledger in `folder`; made by `committer` or `reader`. Its methods may be called from one event loop.

    SQLite works in a thread of its own: a commit waits for the disk, and the event loop should not.
    """

    name = "merkle"

    def __init__(self, file: LogFile, signer: Signer | None) -> None:
        self._file = file
        self._signer = signer
        self._policies: dict[str, dict[str, Any]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    @classmethod
    def committer(cls, folder: Path, signer: Signer) -> "MerkleLog":
        """Open for writing, and make the ledger if there is none; the log's origin is the key's name.

        Raises LedgerUnavailable, also when another committer is at work or the tree does not match its own
        newest checkpoint. A new key of the same name signs the tree as it stands.
        """
        file = LogFile(folder, signer.name)
        try:
            with _trouble(file):
                _sign_standing_tree(file, signer)
        except BaseException:
            file.close()
            raise
        return cls(file, signer)

    @classmethod
    def reader(cls, folder: Path) -> "MerkleLog":
        """Open an existing ledger for reading, also while a committer writes. Raises LedgerUnavailable."""
        return cls(LogFile(folder, None), None)

    @property
    def origin(self) -> str:
        return self._file.origin

    @property
    def place(self) -> str:
        return self.origin

    async def append(self, records: Sequence[Record]) -> list[AppendResult]:
        return await self._run(lambda: self._append(records))

    async def read(self, evaluation_id: str) -> dict[str, Any] | None:
        receipt = await self.prove(evaluation_id)
        return None if receipt is None else dict(receipt.record)

    async def prove(self, evaluation_id: str) -> Receipt | None:
        return await self._run(lambda: next(iter(self._receipts([("exists", evaluation_id)])), None))

    async def find(self, prefix: str, limit: int) -> list[str]:
        return await self._run(lambda: self._file.ids(prefix, limit))

    async def register_policy(self, policy: Mapping[str, Any], created_at: str) -> Receipt:
        return await self._run(lambda: self._register(policy, created_at))

    async def policy(self, digest: str) -> dict[str, Any] | None:
        return await self._run(lambda: self._policy(digest))

    async def newest_checkpoint(self) -> str:
        """The signed note of the newest checkpoint: what an auditor keeps to compare with later."""
        return await self._run(lambda: _newest(self._file))

    async def prove_consistency(self, first: int, second: int) -> list[bytes]:
        """Proof that the tree of `second` leaves extends that of `first` (merkle.verify_consistency)."""

        def prove() -> list[bytes]:
            if second > self._file.size():
                raise ValueError(f"the log has no {second} leaves yet")
            return merkle.consistency_path(first, second, _fetch(self._file, {}))

        return await self._run(prove)

    async def audit(self, keys: Iterable[VerifierKey] = (), earlier: Iterable[str] = ()) -> Audit:
        """Recompute the whole log from its records (ledger.audit.audit)."""
        return await self._run(lambda: audit(self._file, tuple(keys), tuple(earlier)))

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        await asyncio.to_thread(self._file.close)

    async def _run(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            with _trouble(self._file):
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._thread, guarded)

    def _append(self, records: Sequence[Record]) -> list[AppendResult]:
        fresh: dict[str, bytes] = {}
        answers: list[tuple[_Result, str] | Refused] = []
        for record in records:
            evaluation_id = record.get("evaluation_id")
            try:
                raw = record_bytes(record)
                if not isinstance(evaluation_id, str):
                    raise RecordError("evaluation_id", "text")
                standing = fresh.get(evaluation_id) or self._standing(evaluation_id)
                if standing is None:
                    self._check(dict(record))
                    self._points_to(record, fresh)
                    fresh[evaluation_id] = raw
                    answers.append(("created", evaluation_id))
                else:
                    answers.append(("exists" if standing == raw else "conflict", evaluation_id))
            except (RecordError, CanonicalError) as error:
                answers.append(Refused.because(record, error))
        if fresh:
            self._write(fresh)
        receipts = iter(self._receipts([answer for answer in answers if not isinstance(answer, Refused)]))
        return [answer if isinstance(answer, Refused) else next(receipts) for answer in answers]

    def _standing(self, evaluation_id: str) -> bytes | None:
        found = self._file.leaf(evaluation_id)
        return None if found is None else found[1]

    def _check(self, record: dict[str, Any]) -> None:
        check_appendable(record)
        if record["kind"] == "scorecard":
            cited = record["policy_digest"]
            policy = self._policy(cited)  # was checked when it was registered
            if policy is None:
                raise UnknownPolicy(cited)
            check_scorecard(record, policy, cited)

    def _points_to(self, record: Record, fresh: Mapping[str, bytes]) -> None:
        for name in ("supersedes", "refers_to"):
            reference = record.get(name)
            if reference is not None and reference not in fresh and self._standing(reference) is None:
                raise UnknownReference(record["evaluation_id"], name, reference)

    def _policy(self, digest: str) -> dict[str, Any] | None:
        if digest not in self._policies:
            raw = self._file.policy(digest)
            if raw is None:
                return None
            with _trouble(self._file):
                self._policies[digest] = strict_loads(raw)
        return self._policies[digest]

    def _register(self, policy: Mapping[str, Any], created_at: str) -> Receipt:
        try:
            check_policy(policy)
        except RecordError as error:
            raise LedgerRefused(error.field, error.rule) from None
        raw = canonical(dict(policy))
        digest = sha256_hex(raw)
        record = reference_record("policy", digest, created_at)
        try:
            check_shape(record)
        except RecordError as error:
            raise LedgerRefused(error.field, error.rule) from None
        result: _Result = "exists"
        if self._standing(f"policy:{digest}") is None:
            self._write({f"policy:{digest}": record_bytes(record)}, (digest, raw))
            result = "created"
        return self._receipts([(result, f"policy:{digest}")])[0]

    def _write(self, fresh: Mapping[str, bytes], policy: tuple[str, bytes] | None = None) -> None:
        if self._signer is None:
            raise LedgerUnavailable("this ledger is open for reading: only the committer writes")
        nodes: dict[merkle.Node, bytes] = {}
        fetch = _fetch(self._file, nodes)
        with self._file.transaction():
            first = self._file.size()
            leaves = [(first + n, name, raw) for n, (name, raw) in enumerate(fresh.items())]
            made = [
                item
                for number, _, raw in leaves
                for item in _keep(nodes, merkle.completed(number, merkle.leaf_hash(raw), fetch))
            ]
            if policy is not None:
                self._file.add_policy(*policy)
            self._file.add_leaves(leaves)
            self._file.add_nodes(made)
            _sign(self._file, self._signer, first + len(leaves), fetch)

    def _receipts(self, wanted: Sequence[tuple[_Result, str]]) -> list[Receipt]:
        """One for each id that stands, in order, all against one checkpoint."""
        nodes: dict[merkle.Node, bytes] = {}
        fetch = _fetch(self._file, nodes)
        receipts = []
        with self._file.snapshot():
            note = _newest(self._file)
            size = checkpoint.parse(note).checkpoint.size
            for result, evaluation_id in wanted:
                found = self._file.leaf(evaluation_id)
                if found is None:
                    continue
                number, raw = found
                proof = {
                    "origin": self.origin,
                    "index": number,
                    "tree_size": size,
                    "path": [value.hex() for value in merkle.inclusion_path(number, size, fetch)],
                    "checkpoint": note,
                }
                receipts.append(Receipt(result, strict_loads(raw), sha256_hex(raw), self.name, proof))
        return receipts


@contextmanager
def _trouble(file: LogFile) -> Iterator[None]:
    """SQLite's errors, and things in the file that cannot be read, as LedgerUnavailable."""
    with file.trouble():
        try:
            yield
        except (CanonicalError, CheckpointError) as error:
            raise LedgerUnavailable(f"the ledger {file.path} is damaged ({error}): restore it from a backup") from error


def _keep(
    nodes: dict[merkle.Node, bytes], made: Iterable[tuple[merkle.Node, bytes]]
) -> list[tuple[merkle.Node, bytes]]:
    items = list(made)
    nodes.update(items)
    return items


def _fetch(file: LogFile, nodes: dict[merkle.Node, bytes]) -> merkle.Fetch:
    """Nodes from `nodes`, else from the file; those read stay in `nodes`, since paths of a batch share most."""

    def fetch(level: int, number: int) -> bytes:
        value = nodes.get((level, number)) or file.node(level, number)
        if value is None:
            raise LedgerUnavailable(
                f"the ledger {file.path} lacks tree node {level}/{number}: restore it from a backup"
            )
        nodes[level, number] = value
        return value

    return fetch


def _newest(file: LogFile) -> str:
    note = file.newest_checkpoint()
    if note is None:
        raise LedgerUnavailable(f"the ledger {file.path} has no checkpoint: let the committer open it once")
    return note


def _sign(file: LogFile, signer: Signer, size: int, fetch: merkle.Fetch) -> None:
    file.add_checkpoint(size, signer.sign(Checkpoint(file.origin, size, merkle.tree_root(size, fetch))))


def _sign_standing_tree(file: LogFile, signer: Signer) -> None:
    """Make sure that the newest checkpoint is of this tree and by this key, and never sign over a broken tree."""
    size, fetch = file.size(), _fetch(file, {})
    note = file.newest_checkpoint()
    if note is not None:
        signed = checkpoint.parse(note)
        if (signed.checkpoint.size, signed.checkpoint.root) != (size, merkle.tree_root(size, fetch)):
            raise LedgerUnavailable(
                f"the ledger {file.path} was changed behind its newest checkpoint (of {signed.checkpoint.size} "
                f"records; the file has {size}): audit it and restore it from a backup"
            )
        if any(signature.key_id == signer.verifier.key_id for signature in signed.signatures):
            return
    with file.transaction():
        _sign(file, signer, size, fetch)
