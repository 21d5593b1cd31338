"""What the routes are made of and ask with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import quote

from fastapi import Path as InPath
from fastapi import Query
from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from glassbox.catalogue.reading import Catalogue, Detail, Row, Summary
from glassbox.contract.canonical import sha256_hex
from glassbox.contract.spending import Spending
from glassbox.dossier.archive import Shelf
from glassbox.gateway import forms
from glassbox.gateway.accepting import Rules, Send
from glassbox.gateway.callers import Gatekeeper
from glassbox.gateway.limits import Limits
from glassbox.gateway.problems import Problem
from glassbox.gateway.proofs import Prove

T = TypeVar("T")

_THREADS = 16
NDJSON = "application/x-ndjson"

TenantQuery = Annotated[
    str | None,
    Query(pattern=forms.WORD, description="Another tenant; only for callers who may read every tenant's evaluations."),
]
EvaluationId = Annotated[str, InPath(pattern=forms.ID)]


def _rfc_3339(given: object, read: ValidatorFunctionWrapHandler) -> object:
    """What pydantic would take for seconds since 1970 is no RFC 3339."""
    try:
        if isinstance(given, str) and "-" in given[1:]:
            return read(given)
    except ValidationError:
        pass
    raise ValueError("must be a time such as 2026-01-31T09:30:00Z")


Moment = Annotated[datetime, WrapValidator(_rfc_3339)]
Since = Annotated[Moment | None, Query(description="At this time or later.")]
Until = Annotated[Moment | None, Query(description="Before this time.")]


@dataclass(frozen=True)
class Parts:
    """What the application is made of. `shelf`: where texts and evidence lie. `suites`, `runs`: folders of replay.
    `prove`: asks the ledger itself where receipts carry no whole proof."""

    rules: Rules
    send: Send
    catalogue: Catalogue
    shelf: Shelf
    gatekeeper: Gatekeeper
    limits: Limits
    spending: Spending
    suites: Path
    runs: Path
    prove: Prove | None = None
    stopping: Callable[[], bool] = lambda: False


class AsyncCatalogue:
    """The catalogue, asked in threads."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue, self._threads = catalogue, ThreadPoolExecutor(_THREADS, "catalogue")

    async def ask(self, question: Callable[[Catalogue], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, question, self._catalogue)

    async def newest_seq(self) -> int:
        return await self.ask(lambda catalogue: catalogue.newest_seq())

    async def committed_since(self, tenant: str, seq: int, limit: int) -> list[tuple[int, Summary]]:
        return await self.ask(lambda catalogue: list(catalogue.committed_since(tenant, seq, limit)))

    async def committed(self, tenant: str, evaluation_id: str) -> bool:
        found = await self.ask(lambda catalogue: catalogue.detail(tenant, evaluation_id))
        return found is not None and found.state == "committed"

    async def card(self, tenant: str, evaluation_id: str) -> Row:
        """The committed card of an evaluation. Raises `Problem`."""
        found: Detail | None = await self.ask(lambda catalogue: catalogue.detail(tenant, evaluation_id))
        if found is None:
            raise Problem("not_found", "you have no evaluation under this id")
        if found.state != "committed" or found.card is None:
            raise Problem("not_committed", f"the evaluation is in the state {found.state}")
        return found.card


def folder_of(root: Path, tenant: str) -> Path:
    """A tenant's own folder below one; the folder itself where there is no tenant. Nothing else there begins with @."""
    quoted = quote(tenant, safe="")
    return root if not tenant else root / f"@{quoted if len(quoted) < 200 else sha256_hex(tenant.encode())}"


def moment(name: str, given: datetime | None) -> int | None:
    """A time of a parameter in ms. Raises `Problem`."""
    if given is None:
        return None
    if given.tzinfo is None:
        raise Problem("invalid_parameter", "name its time zone, such as 2026-01-31T09:30:00Z", field=name)
    return round(given.timestamp() * 1000)
