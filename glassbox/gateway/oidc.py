"""Bearer tokens of an OpenID Connect provider, verified here: signature, issuer, audience, time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Pinned: a token cannot choose `none`, or have a public key taken for a shared secret."""
_LEEWAY_S = 30
_TIMEOUT_S = 5
_CACHE_S = 300
_SCOPE = "glassbox:"


class TokenRefused(Exception):
    """A token that proves nothing; the message says why, without quoting it."""


class ProviderUnavailable(Exception):
    """The provider's keys cannot be had just now."""


@dataclass(frozen=True)
class Provider:
    """Whose tokens count, for whom they must be, and which of their claims say what. `jwks_url`: by default found by
    the issuer's own description."""

    issuer: str
    audience: str
    jwks_url: str | None = None
    tenant_claim: str = "tenant"
    scope_claim: str = "scope"


class TokenVerifier:
    """Keys of the provider are fetched when they are first needed, kept for five minutes, and asked for again at most
    once in half a minute because of a key id that nobody knows."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._keys: Any = None

    async def claims(self, token: str) -> dict[str, Any]:
        """What a valid token says. Raises `TokenRefused` and `ProviderUnavailable`."""
        return await asyncio.to_thread(self._verified, token)

    def _verified(self, token: str) -> dict[str, Any]:
        import jwt

        provider = self._provider
        try:
            if self._keys is None:
                url = provider.jwks_url or _described(provider.issuer)
                self._keys = jwt.PyJWKClient(url, lifespan=_CACHE_S, timeout=_TIMEOUT_S)
            key = self._keys.get_signing_key_from_jwt(token)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                issuer=provider.issuer,
                audience=provider.audience,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWKClientConnectionError, OSError) as error:
            raise ProviderUnavailable(f"the provider's keys cannot be had: {type(error).__name__}") from None
        except jwt.PyJWTError as error:
            raise TokenRefused(f"the token is refused: {type(error).__name__}") from None
        return claims

    def tenant(self, claims: dict[str, Any]) -> str | None:
        found = claims.get(self._provider.tenant_claim)
        return found if isinstance(found, str) and 0 < len(found) <= 256 and "\0" not in found else None

    def scopes(self, claims: dict[str, Any]) -> frozenset[str]:
        """The names after `glassbox:` among the token's scopes, which are words in a text or a list."""
        found = claims.get(self._provider.scope_claim)
        words = found.split() if isinstance(found, str) else found if isinstance(found, list) else []
        ours = (word for word in words if isinstance(word, str) and word.startswith(_SCOPE))
        return frozenset(word.removeprefix(_SCOPE) for word in ours)


def _described(issuer: str) -> str:
    """`jwks_uri` of the provider's own description (OpenID Connect Discovery 1.0 §4)."""
    address = urlsplit(issuer.rstrip("/") + "/.well-known/openid-configuration")
    if address.scheme != "https" and address.hostname not in ("127.0.0.1", "localhost"):
        raise ProviderUnavailable("GLASSBOX_OIDC_ISSUER must be an https address")
    with urlopen(address.geturl(), timeout=_TIMEOUT_S) as answer:  # noqa: S310 — https, or this machine
        found = json.loads(answer.read(1024 * 1024)).get("jwks_uri")
    if not isinstance(found, str):
        raise ProviderUnavailable("the provider's description names no jwks_uri")
    return found
