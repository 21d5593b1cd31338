"""An auditor's check of a whole log: everything it says is recomputed from the records themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex, strict_loads
from glassbox.contract.record import RecordError, check_record
from ledger import checkpoint, merkle
from ledger.checkpoint import CheckpointError, VerifierKey
from ledger.log_file import LogFile


@dataclass(frozen=True)
class Audit:
    """What was read, up to `problem`: the first thing that does not hold, or None. `root` is hexadecimal."""

    origin: str
    tree_size: int
    root: str
    checkpoints: int
    problem: str | None


def audit(file: LogFile, keys: Sequence[VerifierKey], earlier: Sequence[str]) -> Audit:
    """Recompute the log: record bytes, arithmetic, ids, tree nodes, and the root at every checkpoint.

    `keys`: with any, each stored checkpoint must be signed by one of them. `earlier`: signed notes of this log that
    the auditor kept; the log must still contain them, which is what a rewritten history cannot do. Reads every
    record once, in constant memory, and sees one state of the log. Raises LedgerUnavailable.
    """
    with file.trouble(), file.snapshot():
        tree = _Tree(file)
        stored = [_Note(f"checkpoint {serial}", note, size) for serial, size, note in file.checkpoints()]
        kept = [_Note(f"earlier checkpoint {n}", note, None) for n, note in enumerate(earlier, 1)]
        problem = next(_problems(file, tree, stored + kept, keys), None)
        return Audit(file.origin, tree.size, tree.root().hex(), len(stored), problem)


class _Note(NamedTuple):
    name: str
    text: str
    filed_under: int | None


class _Tree:
    """The tree as its leaves make it: grows in order and keeps only the complete subtrees on its right edge."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._edge: dict[merkle.Node, bytes] = {}
        self.size = 0

    def _fetch(self, level: int, number: int) -> bytes:
        return self._edge[level, number]

    def root(self) -> bytes:
        return merkle.tree_root(self.size, self._fetch)

    def append(self, raw: bytes) -> merkle.Node | None:
        """Add a record; the first node made by it that the file has otherwise."""
        wrong = None
        made = list(merkle.completed(self.size, merkle.leaf_hash(raw), self._fetch))
        for node, value in made:
            if wrong is None and self._file.node(*node) != value:
                wrong = node
        top, value = made[-1]
        for level in range(top[0]):
            del self._edge[level, (self.size >> level) - 1]
        self._edge[top] = value
        self.size += 1
        return wrong


def _problems(file: LogFile, tree: _Tree, notes: Sequence[_Note], keys: Sequence[VerifierKey]) -> Iterator[str]:
    policies: dict[str, dict[str, Any]] = {}
    for digest, raw in file.policies():
        try:
            policies[digest] = strict_loads(raw)
        except CanonicalError as error:
            yield f"what is kept as policy {digest} is no policy: {error}"
            continue
        if sha256_hex(raw) != digest:
            yield f"the policy kept as {digest} is another one"
    claims: dict[int, list[tuple[str, bytes]]] = {}
    for name, text, filed_under in notes:
        try:
            signed = checkpoint.parse(text)
            if keys:
                checkpoint.verify(signed, keys)
        except CheckpointError as error:
            yield f"{name}: {error}"
            continue
        head = signed.checkpoint
        if head.origin != file.origin:
            yield f"{name} is of the log {head.origin}"
        if filed_under not in (None, head.size):
            yield f"{name} is filed under {filed_under} records and says {head.size}"
        claims.setdefault(head.size, []).append((name, head.root))
    yield from _wrong_roots(tree, claims)
    for number, evaluation_id, raw in file.leaves():
        if number != tree.size:
            yield f"record {tree.size} is missing"
            return
        yield from _record_problems(number, evaluation_id, raw, policies)
        wrong = tree.append(raw)
        if wrong is not None:
            yield f"record {number} ({evaluation_id}) does not give the stored tree node {wrong[0]}/{wrong[1]}"
        yield from _wrong_roots(tree, claims)
    for size in sorted(claims):
        yield f"{claims[size][0][0]} covers {size} records, the log has {tree.size}"


def _wrong_roots(tree: _Tree, claims: dict[int, list[tuple[str, bytes]]]) -> Iterator[str]:
    for name, root in claims.pop(tree.size, ()):
        if root != tree.root():
            yield f"{name}: the first {tree.size} records do not give its root"


def _record_problems(number: int, evaluation_id: str, raw: bytes, policies: dict[str, dict[str, Any]]) -> Iterator[str]:
    what = f"record {number} ({evaluation_id})"
    try:
        record = strict_loads(raw)
        if canonical(record) != raw:
            yield f"{what} is not in canonical form"
        check_record(record, policies.get(str(record.get("policy_digest"))))
        if record["evaluation_id"] != evaluation_id:
            yield f"{what} carries the id {record['evaluation_id']}"
    except (CanonicalError, RecordError) as error:
        yield f"{what}: {error}"
