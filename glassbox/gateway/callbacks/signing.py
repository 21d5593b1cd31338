"""Signatures as Standard Webhooks has them (https://www.standardwebhooks.com, specification 1.0.0, symmetric).

What is signed is `ID.TIMESTAMP.BODY`: the identifier stays the same when a message is sent again, the timestamp
(seconds since 1970) is that of the attempt, so that a receiver can refuse what somebody has kept and sends later.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Mapping, Sequence

PREFIX = "whsec_"
_BYTES = 32


def new_secret() -> str:
    """256 random bits, as receivers' libraries read them."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def headers(secrets_: Sequence[str], message_id: str, timestamp: int, body: bytes) -> Mapping[str, str]:
    """The headers of an attempt. With several secrets there are as many signatures, any of which suffices: so a secret
    is replaced while receivers still check by the old one. Raises ValueError for what is no secret."""
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    signatures = []
    for secret in secrets_:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        signatures.append("v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }
