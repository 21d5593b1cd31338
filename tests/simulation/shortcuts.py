"""What the product computes again and again from equal arguments, remembered while schedules run, and its secrets drawn
from the seed, so that a replay shows the very same digests.

Each of these is a pure function, a secret, or a metric that nobody reads; the tests hold the functions to what they
stand for.
"""

from __future__ import annotations

import functools
import json
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from prometheus_client.metrics import MetricWrapperBase

import glassbox.contract.events
import glassbox.contract.record
import ledger.evidence
import streams.committer
import streams.intake
import streams.joiner
import streams.worker
from glassbox.contract.composite import compose
from tests.simulation import requests

_MANY = 500
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: Any) -> bytes:
    """RFC 8785 of what a schedule writes: keys of ASCII, no fractions, nothing that has no form."""
    return _ENCODER.encode(value).encode()


@functools.lru_cache(_MANY)
def parsed(raw: bytes) -> Any:
    """A message's JSON value. Nobody may change it."""
    return json.loads(raw)


_composed: dict[tuple[str, str], dict[str, Any]] = {}


def composed(rows: Sequence[Mapping[str, Any]], policy: Mapping[str, Any]) -> dict[str, Any]:
    """`compose`, whose results nobody changes."""
    key = repr(rows), repr(policy)
    if key not in _composed:
        if len(_composed) > _MANY:
            _composed.clear()
        _composed[key] = compose(rows, policy)
    return _composed[key]


class _Reader:
    """A pydantic reader of frozen models that returns the same object for equal bytes."""

    def __init__(self, adapter: Any) -> None:
        self.validate_json = functools.lru_cache(_MANY)(adapter.validate_json)


class _Unread:
    def inc(self, amount: float = 1) -> None: ...

    def observe(self, amount: float) -> None: ...

    def set(self, value: float) -> None: ...


_UNREAD = _Unread()
_SECRETS = random.Random()
_REMEMBERED: Sequence[tuple[Any, str, Any]] = (
    (ledger.evidence, "canonical", canonical),
    (ledger.evidence, "strict_loads", parsed),
    (ledger.evidence, "_key", functools.lru_cache(_MANY)(ledger.evidence._key)),
    (ledger.evidence, "os", SimpleNamespace(urandom=_SECRETS.randbytes)),
    (glassbox.contract.record, "canonical", canonical),
    (glassbox.contract.events, "compose", composed),
    (streams.worker, "canonical", canonical),
    (streams.intake, "parse_request", lambda raw, policies: requests.parsed(raw, tuple(policies))),
    (streams.intake, "secrets", SimpleNamespace(token_hex=lambda n: _SECRETS.randbytes(n).hex())),
    (streams.joiner, "RESULT", _Reader(streams.joiner.RESULT)),
    (streams.committer, "ENTRY", _Reader(streams.committer.ENTRY)),
    (MetricWrapperBase, "labels", lambda self, *_, **__: _UNREAD),
)


@contextmanager
def remembered() -> Iterator[None]:
    """The product's code with these in place."""
    logging.disable()  # the trace of a schedule says more
    before = [(where, name, getattr(where, name)) for where, name, _ in _REMEMBERED]
    try:
        for where, name, value in _REMEMBERED:
            setattr(where, name, value)
        yield
    finally:
        logging.disable(logging.NOTSET)
        for where, name, value in before:
            setattr(where, name, value)


def seed_secrets(seed: int) -> None:
    """Salts and intake runs follow from the seed."""
    _SECRETS.seed(seed)
