"""How records are shared out over transactions, and what the chaincode answers about each. Pure.

A Fabric transaction does not read its own writes, and two in flight that touch one record overtake each other. So
the records of an append go in waves: an id that comes twice, and a record that points to another of the same append,
wait for the wave before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from glassbox.contract.canonical import CanonicalError, strict_loads
from ledger.fabric.transactions import Call
from ledger.port import LedgerUnavailable, Record, Refused, UnknownPolicy, UnknownReference

BATCH = 100
"""Records of a transaction, by default; the chaincode takes 200."""

_BATCH_BYTES = 1024 * 1024
"""A transaction carries its records twice (input and write set), and orderers cut blocks near 2 MiB."""

_SINGLY = {"run": "CommitRun", "review": "CommitReview"}
_TOGETHER = "CommitScorecards"
_POINTERS = ("supersedes", "refers_to")


@dataclass(frozen=True)
class Item:
    """A record, its place in the append, and its RFC 8785 bytes, which cost too much to be made twice."""

    number: int
    record: Record
    raw: bytes

    @property
    def evaluation_id(self) -> str:
        return str(self.record["evaluation_id"])


@dataclass(frozen=True)
class Batch:
    """The records of one transaction, and the chaincode's function for them."""

    function: str
    items: tuple[Item, ...]

    def call(self) -> Call:
        raw = [item.raw.decode() for item in self.items]
        argument = f"[{','.join(raw)}]" if self.function == _TOGETHER else raw[0]
        return Call(self.function, (argument,), tuple(item.evaluation_id for item in self.items))


Result = Literal["created", "exists", "conflict"]
Answer = Result | Refused

_RESULTS: Mapping[str, Result] = {"created": "created", "exists": "exists", "conflict": "conflict"}


def waves(items: Iterable[Item]) -> list[list[Item]]:
    """Records in the order of writing: in a wave no id comes twice and none points to another's."""
    found: list[list[Item]] = []
    last: dict[str, int] = {}
    for item in items:
        needs = [item.evaluation_id, *(item.record.get(name) for name in _POINTERS)]
        wave = 1 + max((last[needed] for needed in needs if isinstance(needed, str) and needed in last), default=-1)
        if wave == len(found):
            found.append([])
        found[wave].append(item)
        last[item.evaluation_id] = wave
    return found


def split(wave: Sequence[Item], most: int = BATCH) -> list[Batch]:
    """The transactions of a wave: scorecards at most `most` together and near 1 MiB, runs and reviews one by one."""
    batches: list[list[Item]] = []
    size = 0
    for item in wave:
        if _function(item.record) != _TOGETHER:
            continue
        if not batches or len(batches[-1]) == most or size + len(item.raw) > _BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(item)
        size += len(item.raw)
    singly = [Batch(function, (item,)) for item in wave if (function := _function(item.record)) != _TOGETHER]
    return [*(Batch(_TOGETHER, tuple(batch)) for batch in batches), *singly]


def answers(batch: Batch, result: bytes) -> list[Answer]:
    """What the chaincode answered about each record of a batch.

    Raises UnknownPolicy or UnknownReference for the first record that has to wait for something, and
    LedgerUnavailable for what is no answer to this batch.
    """
    try:
        said = strict_loads(result)
        pairs = list(zip(batch.items, said if isinstance(said, list) else [said], strict=True))
        return [_answer(item.record, answer) for item, answer in pairs]
    except (CanonicalError, ValueError, KeyError, TypeError):
        raise LedgerUnavailable(
            "the chaincode answered a batch in a form that this version does not know: install the chaincode that "
            "belongs to it"
        ) from None


def standing(ids: Sequence[str], result: bytes) -> dict[str, tuple[dict[str, Any], str]]:
    """id -> (record, id of its transaction), from the answer of ReadRecords. Raises LedgerUnavailable."""
    try:
        found = zip(ids, strict_loads(result), strict=True)
        return {name: (dict(item["record"]), str(item["tx_id"])) for name, item in found if item is not None}
    except (CanonicalError, ValueError, KeyError, TypeError):
        raise LedgerUnavailable(
            "the chaincode answered ReadRecords in a form that this version does not know: install the chaincode that "
            "belongs to it"
        ) from None


def _function(record: Record) -> str:
    """The chaincode refuses what is of no kind where it refuses scorecards."""
    kind = record.get("kind")
    return _SINGLY.get(kind, _TOGETHER) if isinstance(kind, str) else _TOGETHER


def _answer(record: Record, said: Mapping[str, Any]) -> Answer:
    if said["evaluation_id"] != record["evaluation_id"]:
        raise ValueError("the answer is about another record")
    return _refused(record, said) if said["result"] == "refused" else _RESULTS[said["result"]]


def _refused(record: Record, said: Mapping[str, Any]) -> Refused:
    match said["code"]:
        case "unknown_policy":
            raise UnknownPolicy(str(record["policy_digest"]))
        case "unknown_reference":
            name = str(said["field"])
            raise UnknownReference(str(record["evaluation_id"]), name, str(record[name]))
        case _:
            return Refused(str(record["evaluation_id"]), str(said["field"]), str(said["rule"]))
