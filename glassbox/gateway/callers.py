"""Who is asking, and what they may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from glassbox.gateway.keys import PREFIX, KeyRing
from glassbox.gateway.limits import Rates
from glassbox.gateway.oidc import ProviderUnavailable, TokenRefused, TokenVerifier
from glassbox.gateway.private_file import KeysError
from glassbox.gateway.problems import Problem

Scope = Literal["submit", "read", "review"]

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True)
class Caller:
    """`name`: of the key or the token's subject, for the rate. `tenant`: whose evaluations these are; None where every
    tenant's are open (`any_tenant`) and none was named."""

    name: str
    tenant: str | None
    scopes: frozenset[str]
    any_tenant: bool = False
    rate: float | None = None

    def reads(self, tenant: str | None) -> str:
        """The tenant whose evaluations are to be read. Raises `Problem` for somebody else's."""
        if self.any_tenant:
            return tenant or ""
        if tenant not in (None, self.tenant):
            raise Problem("forbidden", "these credentials are of another tenant")
        assert self.tenant is not None
        return self.tenant


OPEN = Caller("open", None, frozenset({"submit", "read", "review"}), any_tenant=True)
"""Anybody on this machine, where no authentication is set up."""


class Gatekeeper:
    """API keys, bearer tokens, or (neither asked for) everybody on this machine."""

    def __init__(self, keys: KeyRing, tokens: TokenVerifier | None) -> None:
        self._keys, self._tokens, self.rates = keys, tokens, Rates()

    @property
    def is_open(self) -> bool:
        """As it stands: the first key closes it."""
        return self._tokens is None and not self._keys.asked

    def needs(self, scope: Scope) -> Callable[[Request], Awaitable[Caller]]:
        """A dependency of a route: its caller, let in. It raises `Problem`."""

        async def caller(request: Request) -> Caller:
            found = await self._caller(request)
            if scope not in found.scopes and "admin" not in found.scopes:
                raise Problem("forbidden", f"these credentials lack the scope {scope}")
            self.rates.take(found.name, found.rate)
            return found

        return caller

    async def _caller(self, request: Request) -> Caller:
        if self.is_open:
            _refuse_strange_host(request)
            return OPEN
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        text = text.strip()
        if kind.lower() != "bearer" or not text:
            raise Problem("unauthenticated", "send Authorization: Bearer with an API key or a token")
        if text.startswith(PREFIX):
            return self._by_key(text)
        if self._tokens is None:
            raise Problem("unauthenticated", "there is no such API key")
        return await self._by_token(text)

    def _by_key(self, text: str) -> Caller:
        try:
            key = self._keys.find(text)
        except KeysError:
            raise Problem("failed", "the keys cannot be read; the operator finds the reason in the log") from None
        if key is None:
            raise Problem("unauthenticated", "there is no such API key, or it has expired")
        admin = "admin" in key.scopes
        return Caller(f"key:{key.id}", key.tenant, frozenset(key.scopes), admin, key.rate)

    async def _by_token(self, text: str) -> Caller:
        assert self._tokens is not None
        try:
            claims = await self._tokens.claims(text)
        except TokenRefused as error:
            raise Problem("unauthenticated", str(error)) from None
        except ProviderUnavailable as error:
            raise Problem("provider_unavailable", str(error)) from None
        scopes, tenant = self._tokens.scopes(claims), self._tokens.tenant(claims)
        if tenant is None and "admin" not in scopes:
            raise Problem("forbidden", "the token names no tenant")
        return Caller(f"token:{claims.get('sub', '')}", tenant, scopes, "admin" in scopes)


def _refuse_strange_host(request: Request) -> None:
    """A page of another site that has its own name point to this machine (DNS rebinding) is not on this machine."""
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name.lower() not in LOOPBACK_NAMES:
        raise Problem("forbidden", "without authentication only requests to 127.0.0.1 or localhost are answered")
