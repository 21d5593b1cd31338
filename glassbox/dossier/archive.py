"""Everything that stands about one evaluation: its record with proof, its policy, and the evidence it counted."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from glassbox.contract.canonical import canonical, strict_loads
from glassbox.contract.record import evidence_digest, record_digest
from ledger.evidence import EvidenceVault, StoreDamaged, owner
from ledger.port import Receipt, StoredRequest, Tombstone
from ledger.verify import cited_outputs

if TYPE_CHECKING:
    from ledger.port import Ledger
    from ledger.store import ObjectStore


class NotOne(LookupError):
    """No record, or several, where one was asked for; the message names the next step."""


@dataclass(frozen=True)
class Outputs:
    """The raw model outputs that counted evidence cites, by SHA-256: those that are there, those that are lost, and
    those that are no longer what was put."""

    kept: Mapping[str, bytes] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    damaged: frozenset[str] = frozenset()

    @property
    def lost(self) -> frozenset[str]:
        return self.missing | self.damaged


@dataclass(frozen=True)
class Dossier:
    """`policy`: canonical, None for a run or review. `request` with its salt, None where it was erased or is not in
    this store. `sealed`: worker kind -> what that worker sealed: its `verdicts` and its judge's `evidence`."""

    receipt: Receipt
    policy: dict[str, Any] | None
    request: StoredRequest | None = None
    erased_at: str | None = None
    sealed: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    outputs: Outputs = Outputs()

    @property
    def record(self) -> Mapping[str, Any]:
        return self.receipt.record

    @property
    def evidence(self) -> dict[str, Any]:
        """Worker kind -> its judge's evidence."""
        return {kind: sealed.get("evidence", {}) for kind, sealed in self.sealed.items()}

    @property
    def verdicts(self) -> dict[str, dict[str, Any]]:
        """Part -> verdict, with its method."""
        return {verdict["part"]: verdict for sealed in self.sealed.values() for verdict in sealed.get("verdicts", ())}


def dossier_of(bundle: bytes) -> Dossier:
    """What a proof bundle discloses, read without a doubt: check it with `ledger.verify` before. Without its raw
    outputs they are all missing."""
    value = strict_loads(bundle, max_depth=64)
    record, ledger = value["record"], value["ledger"]
    receipt = Receipt("exists", record, record_digest(record), ledger, value[ledger])
    if "request" not in value:
        return Dossier(receipt, value["policy"])
    request = StoredRequest(canonical(value["request"]), bytes.fromhex(value["salt"]), 0)
    kept = {digest: b64decode(text) for digest, text in value.get("raw", {}).items()}
    outputs = Outputs(kept, frozenset(cited_outputs(value["evidence"])) - kept.keys())
    return Dossier(receipt, value["policy"], request, sealed=value["evidence"], outputs=outputs)


class Shelf:
    """What readers take from an evidence store, and the reviews that they put there. Every method may raise
    `StoreError`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self._vault = store, EvidenceVault(store)

    async def dossier(self, receipt: Receipt, policy: dict[str, Any] | None) -> Dossier:
        """What is kept of a scorecard's evaluation, without its raw outputs."""
        record = receipt.record
        request = await self._vault.request(record["evaluation_id"])
        if isinstance(request, Tombstone):
            return Dossier(receipt, policy, erased_at=request.erased_at)
        if request is None:
            return Dossier(receipt, policy)
        return Dossier(receipt, policy, request, sealed=await self._counted(record, request.salt))

    async def _counted(self, record: Mapping[str, Any], salt: bytes) -> dict[str, dict[str, Any]]:
        """The evidence that the record cites: a task that was judged twice may have left more. Empty where it is not
        all there."""
        evaluation_id = record["evaluation_id"]
        by_kind: dict[str, list[str]] = {}
        for name in await self._store.names(owner(evaluation_id)):
            match name.split("/"):
                case [_, "evidence", kind, digest]:
                    by_kind.setdefault(kind, []).append(digest)
        for some in _subsets(by_kind):
            if evidence_digest(some) == record["evidence_digest"]:
                raw = {kind: await self._vault.evidence(evaluation_id, kind, some[kind], salt) for kind in some}
                return {kind: strict_loads(content, max_depth=64) for kind, content in raw.items() if content}
        return {}

    async def with_outputs(self, dossier: Dossier) -> Dossier:
        """With the raw outputs that its evidence cites."""
        if dossier.request is None:
            return dossier
        kept: dict[str, bytes] = {}
        missing, damaged = set(), set()
        for digest in set(cited_outputs(dossier.sealed)):
            try:
                raw = await self._vault.raw(dossier.record["evaluation_id"], digest, dossier.request.salt)
            except StoreDamaged:
                damaged.add(digest)
            else:
                if raw is None:
                    missing.add(digest)
                else:
                    kept[digest] = raw
        return replace(dossier, outputs=Outputs(kept, frozenset(missing), frozenset(damaged)))

    async def put_review(self, dossier: Dossier, review: bytes) -> str:
        """Keep what a person says of an evaluation with its evidence, to be erased with it; returns its digest."""
        assert dossier.request is not None
        return await self._vault.put_review(dossier.record["evaluation_id"], review, dossier.request.salt)

    async def review(self, dossier: Dossier, digest: str) -> bytes | None:
        """A review by its digest; None where it is not here."""
        assert dossier.request is not None
        return await self._vault.review(dossier.record["evaluation_id"], digest, dossier.request.salt)

    async def close(self) -> None:
        await self._vault.close()


class Archive:
    """Reading side of a ledger and an evidence store."""

    def __init__(self, ledger: Ledger, shelf: Shelf) -> None:
        self._ledger, self._shelf = ledger, shelf

    async def dossier(self, evaluation_id: str) -> Dossier:
        """By id, or by the beginning of one. Raises `NotOne`."""
        found = await self.exactly(evaluation_id) or await self.exactly(await self._whole(evaluation_id))
        assert found is not None
        return found

    async def exactly(self, evaluation_id: str) -> Dossier | None:
        """By the whole id; None where there is no record."""
        receipt = await self._ledger.prove(evaluation_id)
        if receipt is None:
            return None
        record = receipt.record
        if record["kind"] != "scorecard":
            policy = await self._ledger.policy(record["digest"]) if record["kind"] == "policy" else None
            return Dossier(receipt, policy)
        policy = await self._ledger.policy(record["policy_digest"])
        return await self._shelf.with_outputs(await self._shelf.dossier(receipt, policy))

    async def _whole(self, prefix: str) -> str:
        found = await self._ledger.find(prefix, 2)
        if not found:
            raise NotOne(
                f"no record of {prefix!r} in {self._ledger.place}; `glassbox dead-letters list` shows what was refused"
            )
        if len(found) > 1:
            raise NotOne(f"several records begin with {prefix!r}; give more of the id")
        return found[0]


def _subsets(by_kind: Mapping[str, list[str]]) -> Iterator[dict[str, str]]:
    """Every choice of one digest or none a kind, whole choices first."""
    kinds = list(by_kind)
    for choice in product(*([*by_kind[kind], None] for kind in kinds)):
        yield {kind: digest for kind, digest in zip(kinds, choice, strict=True) if digest is not None}
