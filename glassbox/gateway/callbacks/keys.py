"""The secrets by which callbacks are signed: of each tenant its own, which its receivers know too.

They are kept as they are, in a file that only its owner reads, because whoever signs needs them whole.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from glassbox.gateway.callbacks.signing import new_secret
from glassbox.gateway.private_file import KeysError, Latest, PrivateFile


@dataclass(frozen=True)
class CallbackKey:
    """Times are ISO 8601 in UTC. `tenant`: None for requests that name none."""

    id: str
    tenant: str | None
    created_at: str
    expires_at: str | None = None
    secret: str = field(default="", repr=False)

    def valid(self, now: datetime) -> bool:
        return self.expires_at is None or now < datetime.fromisoformat(self.expires_at)


class CallbackKeyFile:
    """The keys in a file. Every method may raise `KeysError`."""

    def __init__(self, path: Path) -> None:
        self._file = PrivateFile(path, "callback keys")
        self.stamp = self._file.stamp

    def read(self) -> list[CallbackKey]:
        """Empty where there is no file."""
        try:
            return [CallbackKey(**row) for row in self._file.read()]
        except TypeError:
            raise self._file.damaged() from None

    def create(self, tenant: str | None) -> CallbackKey:
        """The first key of a tenant."""
        made = _new(tenant)

        def first(keys: list[CallbackKey]) -> list[CallbackKey]:
            for key in keys:
                if key.tenant == tenant and key.valid(datetime.now(UTC)):
                    raise KeysError(f"this tenant has the key {key.id}; `glassbox callback-keys rotate {key.id}`")
            return [*keys, made]

        self._change(first)
        return made

    def rotate(self, identity: str, grace: timedelta) -> CallbackKey:
        """A new key for the tenant of this one, which itself ends after `grace`; until then both sign."""
        old = self._find(identity)
        made = _new(old.tenant)
        end = (datetime.now(UTC) + grace).isoformat(timespec="seconds")
        ends = end if old.expires_at is None else min(end, old.expires_at)
        self._change(lambda keys: [*(replace(k, expires_at=ends) if k.id == identity else k for k in keys), made])
        return made

    def revoke(self, identity: str) -> CallbackKey:
        """The key signs nothing any more."""
        key = self._find(identity)
        self._change(lambda keys: [each for each in keys if each.id != identity])
        return key

    def _find(self, identity: str) -> CallbackKey:
        for key in self.read():
            if key.id == identity:
                return key
        raise KeysError(f"no key {identity!r}; `glassbox callback-keys list` shows them")

    def _change(self, change: Callable[[list[CallbackKey]], list[CallbackKey]]) -> None:
        self._file.change(lambda: [asdict(key) for key in change(self.read())])


def _new(tenant: str | None) -> CallbackKey:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return CallbackKey(secrets.token_hex(6), tenant, now, secret=new_secret())


class CallbackKeys:
    """The keys of a file as it stands: a change counts from the next callback on."""

    def __init__(self, file: CallbackKeyFile) -> None:
        self._keys = Latest(file.stamp, file.read)

    def secrets(self, tenant: str | None) -> tuple[str, ...]:
        """The secrets of a tenant by which is signed now, the newest first. Raises `KeysError`."""
        now = datetime.now(UTC)
        return tuple(key.secret for key in reversed(self._keys.get()) if key.tenant == tenant and key.valid(now))
