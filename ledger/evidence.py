"""What the store keeps of an evaluation, in a form that `erase` ends for good.

Objects lie under SHA-256(evaluation id) in hexadecimal: `request` (the canonical request, its salt and times, or
the tombstone), `evidence/KIND/DIGEST`, `raw/DIGEST`, `review/DIGEST`, `cache/KEY` and `receipt`. All but `request` and
`receipt` are sealed: AES-256-GCM under a key derived from the salt. The salt lies in `request` alone, so replacing that
one object by a tombstone makes the rest unreadable, also what a late worker still writes.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex, strict_loads
from ledger.port import StoredRequest, StoreError, Tombstone, salted_digest
from ledger.store import ObjectStore

SALT_BYTES = 32

_INFO = b"glassbox sealed evidence v1"
_NONCE_BYTES = 12


class StoreDamaged(StoreError):
    """An object is not what was put: it was changed, or it is another evaluation's."""


def owner(evaluation_id: str) -> str:
    """The folder of an evaluation: SHA-256 of its id, hexadecimal."""
    return sha256_hex(evaluation_id.encode())


class EvidenceVault:
    """Typed access to an ObjectStore. Every method may raise StoreUnavailable; readers also StoreDamaged."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put_request(
        self, evaluation_id: str, request: bytes, requested_at: int, callback_url: str | None = None
    ) -> StoredRequest | Tombstone:
        """Put a canonical request with a fresh salt if the id has none, and return what stands.

        `requested_at`: the request's append time in milliseconds since 1970.
        """
        made = StoredRequest(request, os.urandom(SALT_BYTES), requested_at, callback_url)
        document = {
            "request": request.decode(),
            "salt": made.salt.hex(),
            "requested_at": requested_at,
            "callback_url": callback_url,
        }
        if await self._store.put_if_absent(f"{owner(evaluation_id)}/request", canonical(document)):
            return made
        standing = await self.request(evaluation_id)
        if standing is None:
            raise StoreDamaged(f"the request of {evaluation_id} vanished while it was read: nothing deletes it")
        return standing

    async def request(self, evaluation_id: str) -> StoredRequest | Tombstone | None:
        raw = await self._store.get(f"{owner(evaluation_id)}/request")
        return None if raw is None else _request(evaluation_id, raw)

    async def put_evidence(self, evaluation_id: str, kind: str, evidence: bytes, salt: bytes) -> str:
        """Seal a kind's canonical evidence and return its digest, SHA-256(salt || evidence)."""
        digest = salted_digest(salt, evidence)
        await self._seal(evaluation_id, f"evidence/{kind}/{digest}", evidence, salt)
        return digest

    async def evidence(self, evaluation_id: str, kind: str, digest: str, salt: bytes) -> bytes | None:
        return await self._checked(evaluation_id, f"evidence/{kind}/{digest}", salt, salt, digest)

    async def put_raw(self, evaluation_id: str, raw: bytes, salt: bytes) -> str:
        """Seal a raw model output and return the plain SHA-256 by which evidence cites it."""
        digest = sha256_hex(raw)
        await self._seal(evaluation_id, f"raw/{digest}", raw, salt)
        return digest

    async def raw(self, evaluation_id: str, digest: str, salt: bytes) -> bytes | None:
        return await self._checked(evaluation_id, f"raw/{digest}", salt, b"", digest)

    async def put_review(self, evaluation_id: str, review: bytes, salt: bytes) -> str:
        """Seal what a person says of the evaluation and return its digest, SHA-256(salt || review): its record shows
        that, and nobody can guess a short text from it."""
        digest = salted_digest(salt, review)
        await self._seal(evaluation_id, f"review/{digest}", review, salt)
        return digest

    async def review(self, evaluation_id: str, digest: str, salt: bytes) -> bytes | None:
        return await self._checked(evaluation_id, f"review/{digest}", salt, salt, digest)

    async def put_receipt(self, evaluation_id: str, receipt: Mapping[str, Any]) -> None:
        """Keep the first receipt (`contract.events.Receipt`); plain, since it repeats the ledger."""
        await self._store.put_if_absent(f"{owner(evaluation_id)}/receipt", canonical(dict(receipt)))

    async def receipt(self, evaluation_id: str) -> dict[str, Any] | None:
        raw = await self._store.get(f"{owner(evaluation_id)}/receipt")
        return None if raw is None else _document(evaluation_id, "receipt", raw)

    def cache(self, evaluation_id: str, salt: bytes) -> "SealedCache":
        """The response cache of one evaluation (the judges' ResponseCache)."""
        return SealedCache(self, evaluation_id, salt)

    async def cache_get(self, evaluation_id: str, key: str, salt: bytes) -> bytes | None:
        return await self._open(evaluation_id, f"cache/{key}", salt)

    async def cache_put(self, evaluation_id: str, key: str, value: bytes, salt: bytes) -> None:
        """`key`: of `[A-Za-z0-9._-]`, a digest by custom. The first value stands."""
        await self._seal(evaluation_id, f"cache/{key}", value, salt)

    async def erase(self, evaluation_id: str, erased_at: str) -> None:
        """End an evaluation's content: the tombstone first, in one put, then everything but the receipt.

        Safe to repeat. What a worker that is still judging writes afterwards is sealed with a salt nobody has.
        """
        folder = owner(evaluation_id)
        standing = await self.request(evaluation_id)
        if not isinstance(standing, Tombstone):
            await self._store.replace(f"{folder}/request", canonical({"erased_at": erased_at}))
        for name in await self._store.names(folder):
            if name not in (f"{folder}/request", f"{folder}/receipt"):
                await self._store.delete(name)

    async def close(self) -> None:
        await self._store.close()

    async def _seal(self, evaluation_id: str, rest: str, content: bytes, salt: bytes) -> None:
        name = f"{owner(evaluation_id)}/{rest}"
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + AESGCM(_key(salt)).encrypt(nonce, content, name.encode())
        await self._store.put_if_absent(name, sealed)

    async def _open(self, evaluation_id: str, rest: str, salt: bytes) -> bytes | None:
        name = f"{owner(evaluation_id)}/{rest}"
        sealed = await self._store.get(name)
        if sealed is None:
            return None
        try:
            return AESGCM(_key(salt)).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            raise _damaged(evaluation_id, rest) from None

    async def _checked(self, evaluation_id: str, rest: str, salt: bytes, prefix: bytes, digest: str) -> bytes | None:
        content = await self._open(evaluation_id, rest, salt)
        if content is not None and sha256(prefix + content).hexdigest() != digest:
            raise _damaged(evaluation_id, rest)
        return content


@dataclass(frozen=True)
class SealedCache:
    """Model responses of one evaluation, gone when it is erased."""

    vault: EvidenceVault
    evaluation_id: str
    salt: bytes

    async def get(self, key: str) -> bytes | None:
        return await self.vault.cache_get(self.evaluation_id, key, self.salt)

    async def put(self, key: str, value: bytes) -> None:
        await self.vault.cache_put(self.evaluation_id, key, value, self.salt)


def _key(salt: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) of the salt, which is itself 32 random bytes."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_INFO).derive(salt)


def _request(evaluation_id: str, raw: bytes) -> StoredRequest | Tombstone:
    document = _document(evaluation_id, "request", raw)
    try:
        if document.keys() == {"erased_at"}:
            return Tombstone(document["erased_at"])
        return StoredRequest(
            document["request"].encode(),
            bytes.fromhex(document["salt"]),
            int(document["requested_at"]),
            document["callback_url"],
        )
    except (KeyError, AttributeError, TypeError, ValueError):
        raise _damaged(evaluation_id, "request") from None


def _document(evaluation_id: str, rest: str, raw: bytes) -> dict[str, Any]:
    try:
        document = strict_loads(raw)
    except CanonicalError:
        raise _damaged(evaluation_id, rest) from None
    if not isinstance(document, dict):
        raise _damaged(evaluation_id, rest)
    return document


def _damaged(evaluation_id: str, rest: str) -> StoreDamaged:
    return StoreDamaged(f"the stored {rest} of {evaluation_id} is damaged: restore the evidence store from a backup")
