"""API keys: made once, shown once, kept as a hash.

A key is `gbk_ID_SECRET` with 256 random bits of secret. At rest it is the SHA-256 of the whole key: a slow hash
protects what people choose against guessing; nobody guesses 256 bits, and a slow hash on every request would only be a
way to keep the gateway busy.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from glassbox.gateway.private_file import KeysError, Latest, PrivateFile

PREFIX = "gbk_"
SCOPES = ("submit", "read", "review", "admin")
"""`submit`, `read` and `review` for the key's own tenant; `admin` is all of them, and for every tenant."""


@dataclass(frozen=True)
class ApiKey:
    """A key as it is kept. Times are ISO 8601 in UTC. `tenant`: null only with the scope admin. `rate`: requests a
    second, with bursts of twice as many; null is unlimited."""

    id: str
    hash: str
    name: str
    tenant: str | None
    scopes: tuple[str, ...]
    created_at: str
    expires_at: str | None = None
    rate: float | None = None

    @property
    def lifetime(self) -> timedelta | None:
        """From its creation to its end; None is for ever."""
        if self.expires_at is None:
            return None
        return datetime.fromisoformat(self.expires_at) - datetime.fromisoformat(self.created_at)

    def valid(self, now: datetime) -> bool:
        return self.expires_at is None or now < datetime.fromisoformat(self.expires_at)


def hashed(key: str) -> str:
    """SHA-256 of a key, hexadecimal."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class KeyFile:
    """The keys in a file. Every method may raise `KeysError`."""

    def __init__(self, path: Path) -> None:
        self._file = PrivateFile(path, "API keys")
        self.path, self.stamp, self.exists = path, self._file.stamp, self._file.exists

    def read(self) -> list[ApiKey]:
        """Empty where there is no file."""
        try:
            return [ApiKey(**{**row, "scopes": tuple(row["scopes"])}) for row in self._file.read()]
        except (TypeError, KeyError):
            raise self._file.damaged() from None

    def create(
        self, name: str, tenant: str | None, scopes: Sequence[str], lifetime: timedelta | None, rate: float | None
    ) -> tuple[ApiKey, str]:
        """A new key, and its text, which nobody can show again. Raises `KeysError`."""
        if not scopes or set(scopes) - set(SCOPES):
            raise KeysError(f"scopes are {', '.join(SCOPES)}")
        if tenant is None and "admin" not in scopes:
            raise KeysError("a key without the scope admin needs a tenant")
        now = datetime.now(UTC)
        identity = secrets.token_hex(6)
        text = f"{PREFIX}{identity}_{secrets.token_urlsafe(32)}"
        expires = None if lifetime is None else (now + lifetime).isoformat(timespec="seconds")
        key = ApiKey(
            identity, hashed(text), name, tenant, tuple(scopes), now.isoformat(timespec="seconds"), expires, rate
        )
        self._change(lambda keys: [*keys, key])
        return key, text

    def rotate(self, identity: str, grace: timedelta, lifetime: timedelta | None = None) -> tuple[ApiKey, str]:
        """A new key like this one, which itself ends after `grace`. Without `lifetime` the new one has the old one's.
        Raises `KeysError`."""
        old = self._find(identity)
        lifetime = old.lifetime if lifetime is None else lifetime
        if lifetime is not None and lifetime <= timedelta(0):
            raise KeysError(f"the key {identity} ended as it was made: say by --expires how long the new one lives")
        made = self.create(old.name, old.tenant, old.scopes, lifetime, old.rate)
        end = (datetime.now(UTC) + grace).isoformat(timespec="seconds")
        if old.expires_at is None or end < old.expires_at:
            self._change(lambda keys: [replace(k, expires_at=end) if k.id == identity else k for k in keys])
        return made

    def revoke(self, identity: str) -> ApiKey:
        """The key is gone; it opens nothing from the next request on. Raises `KeysError`."""
        key = self._find(identity)
        self._change(lambda keys: [each for each in keys if each.id != identity])
        return key

    def _find(self, identity: str) -> ApiKey:
        for key in self.read():
            if key.id == identity:
                return key
        raise KeysError(f"no key {identity!r}; `glassbox keys list` shows them")

    def _change(self, change: Callable[[list[ApiKey]], list[ApiKey]]) -> None:
        self._file.change(lambda: [asdict(key) for key in change(self.read())])


class KeyRing:
    """The keys of a file as it stands: a change counts from the next request on. `required`: also while there is no
    file."""

    def __init__(self, file: KeyFile, *, required: bool) -> None:
        self._file, self._asked = file, required
        self._keys = Latest(file.stamp, lambda: {key.id: key for key in file.read()})

    @property
    def asked(self) -> bool:
        """Whether a key is needed: from the moment that there is a file, and then for good, for a file that goes away
        must not let everybody in."""
        self._asked = self._asked or self._file.exists()
        return self._asked

    def find(self, text: str) -> ApiKey | None:
        """The valid key with this text. Takes as long for an id that is not there as for a wrong secret. Raises
        `KeysError`."""
        identity = text.removeprefix(PREFIX).partition("_")[0]
        key = self._keys.get().get(identity)
        same = hmac.compare_digest(hashed(text), key.hash if key else "0" * 64)
        return key if key is not None and same and key.valid(datetime.now(UTC)) else None
