"""A system behind a URL: a question is posted as JSON, the reply is read as `wire` has it."""

from __future__ import annotations

import time
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from glassbox.replay.store import SystemReference
from glassbox.replay.systems.port import InvocationFailed, environment_secrets, names_secret
from glassbox.replay.systems.wire import read_reply
from glassbox.replay.trace import ErrorType, Invocation
from judges.llm import Endpoint, EndpointClient, EndpointError

_TYPES: dict[str, ErrorType] = {
    "timeout": "timeout",
    "rate_limited": "rate_limited",
    "malformed_output": "malformed_output",
    "refused": "refused",
    "truncated": "truncated",
}
"""Causes of the client that are error types of a trace; any other is `unavailable`."""

_LONG = 16
"""A value of a query that is as long, in characters, is taken for a key; a version or a date is shorter."""


class HttpSystem:
    """`api_key`: sent as a bearer token, if given. `timeout_s` bounds a call, in seconds."""

    def __init__(self, url: str, version: str, *, api_key: str = "", timeout_s: float) -> None:
        self.reference = SystemReference(name="http", version=version, parameters={"url": shown(url)})
        self.secrets = secrets_of(url, api_key)
        parts = urlsplit(url)
        base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        self._path = urlunsplit(("", "", parts.path, parts.query, ""))
        self._timeout_s = timeout_s
        self._client = EndpointClient(Endpoint(base, "", "", api_key, call_limit_s=timeout_s))

    async def start(self) -> None:
        """Nothing has to be up here."""

    async def answer(self, question: str) -> Invocation:
        try:
            raw = await self._client.post(self._path, {"question": question}, time.monotonic() + self._timeout_s)
        except EndpointError as error:
            raise failed(error) from None
        return read_reply(raw)

    async def close(self) -> None:
        await self._client.close()


def failed(error: EndpointError) -> InvocationFailed:
    """What a client's error is in a trace."""
    type_ = _TYPES.get(error.cause, "unavailable")
    return InvocationFailed(type_, error.detail or error.cause, retry_after=error.retry_after_s, final=error.final)


def shown(url: str) -> str:
    """A URL as it may be kept: without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def secrets_of(url: str, api_key: str) -> frozenset[str]:
    """What must not be kept of how a URL is reached: the key, the password, and of the query what is named like a key
    or is as long as one. Raises ValueError where it names two ways."""
    parts = urlsplit(url)
    password = parts.password
    if api_key and password:
        raise ValueError(f"{shown(url)}: a password in the address and an API key exclude each other")
    raw = (pair.partition("=")[::2] for pair in parts.query.split("&"))
    query = {value for name, value in (*raw, *parse_qsl(parts.query)) if names_secret(name) or len(value) >= _LONG}
    return environment_secrets() | {secret for secret in (api_key, password, *query) if secret}
