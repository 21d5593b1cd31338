"""A gateway without a broker: what it sends is kept in a list, the catalogue is a SQLite file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from glassbox.catalogue.database import Database
from glassbox.catalogue.reading import Catalogue
from glassbox.catalogue.writing import write
from glassbox.contract.documents import DocumentRules
from glassbox.contract.spending import Spending
from glassbox.dossier.archive import Shelf
from glassbox.gateway.accepting import Rules
from glassbox.gateway.app import make_app
from glassbox.gateway.callers import Gatekeeper
from glassbox.gateway.keys import KeyFile, KeyRing
from glassbox.gateway.limits import Limits
from glassbox.gateway.oidc import TokenVerifier
from glassbox.gateway.parts import Parts
from ledger.evidence import EvidenceVault
from ledger.store import FolderStore
from streams.ports import Record
from streams.topics import Topic
from tests.catalogue.stories import POLICIES, PROJECTION

ID_KEY = b"k" * 32
RULES = Rules(frozenset(POLICIES), DocumentRules(("s3://documents/",)), ID_KEY)
ASKED = {
    "query": "Who wrote the first program?",
    "answer": "Ada Lovelace wrote it in 1843.",
    "retrieved_passages": ["Ada Lovelace wrote the first program in 1843."],
}


@dataclass
class Broker:
    """What was sent. `error`: raised instead of taking it."""

    sent: list[tuple[bytes, bytes, Mapping[str, str]]] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)
    error: Exception | None = None

    async def send(self, topic: Topic, key: bytes, value: bytes, headers: Mapping[str, str]) -> None:
        if self.error is not None:
            raise self.error
        if topic.name == "glassbox.scorecards":
            self.entries.append(value)
            return
        assert topic.name == "glassbox.requests"
        self.sent.append((key, value, headers))


@dataclass
class Door:
    """A gateway under test."""

    app: FastAPI
    broker: Broker
    database: Database
    keys: KeyFile
    store: FolderStore

    @property
    def vault(self) -> EvidenceVault:
        return EvidenceVault(self.store)

    def client(
        self, key: str | None = None, host: str = "localhost", headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx.AsyncClient:
        headers = {**(headers or {}), **({"Authorization": f"Bearer {key}"} if key else {})}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers, **more)

    def key(self, tenant: str | None = "acme", *scopes: str, **more: Any) -> str:
        options = {"lifetime": None, "rate": None, **more}
        return self.keys.create("test", tenant, scopes or ("submit", "read", "review"), **options)[1]

    def told(self, records: Sequence[Record]) -> None:
        write(self.database, PROJECTION.changes(records))


@contextmanager
def door(
    folder: Path, *, keyed: bool = False, tokens: TokenVerifier | None = None, limits: Limits | None = None, **more: Any
) -> Iterator[Door]:
    """`more`: parts in place of the usual ones."""
    database = Database(f"sqlite:///{folder / 'catalogue.sqlite'}")
    database.migrate()
    broker, keys = Broker(), KeyFile(folder / "keys" / "api-keys.json")
    gatekeeper = Gatekeeper(KeyRing(keys, required=keyed), tokens)
    limits = limits or Limits(stream_s=0.2)
    store = FolderStore(folder / "evidence")
    folders = folder / "suites", folder / "runs"
    parts = Parts(RULES, broker.send, Catalogue(database), Shelf(store), gatekeeper, limits, Spending(), *folders)
    try:
        yield Door(make_app(replace(parts, **more)), broker, database, keys, store)
    finally:
        database.close()
