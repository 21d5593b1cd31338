"""The texts that requests refer to. They belong to the producer: nothing here changes or deletes one."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path

from glassbox.contract.documents import DocumentRules
from glassbox.contract.request import JudgeInput, TaskInput, TextReference
from ledger.objects import Objects
from ledger.port import DocumentChanged, DocumentMissing

_AT_ONCE = 4
"""Documents of one request that are fetched side by side."""


class StoredDocuments:
    """`port.Documents` in the places of the settings."""

    def __init__(self, rules: DocumentRules) -> None:
        self.rules = rules
        self._places: dict[str, Objects] = {}

    async def read(self, given: TaskInput) -> JudgeInput:
        """With the text of every reference. Raises `DocumentMissing`, `DocumentChanged`, `StoreUnavailable`."""
        every, slots = list(given.references()), asyncio.Semaphore(_AT_ONCE)
        if sum(reference.size for reference in every) > self.rules.request_max:
            raise DocumentMissing(f"the documents have over {self.rules.request_max} bytes: they are not read")

        async def read(reference: TextReference) -> str:
            async with slots:
                return await self._text(reference)

        return given.read(dict(zip(every, await asyncio.gather(*map(read, every)), strict=True)))

    async def put(self, data: bytes) -> TextReference:
        """Keep a text under its digest in the first place, once, and return the reference to it."""
        location, digest = self.rules.locations[0], sha256(data).hexdigest()
        path = f"{digest[:2]}/{digest}"
        await self._objects(location).create(path, data)
        return TextReference(uri=location + path, sha256=digest, size=len(data))

    def _objects(self, location: str) -> Objects:
        if location not in self._places:
            self._places[location] = Objects(location, "GLASSBOX_DOCUMENTS_URL")
        return self._places[location]

    async def _text(self, reference: TextReference) -> str:
        found = self.rules.located(reference.uri)
        if found is None or reference.size > self.rules.document_max:
            raise DocumentMissing("a document is in none of the places of GLASSBOX_DOCUMENTS_URL, or too large")
        location, path = found
        if location.startswith("file:") and not _inside(Path(location.removeprefix("file://")), path):
            raise DocumentMissing("a document's file is a link out of its folder: it is not read")
        data = await self._objects(location).get(path, at_most=self.rules.document_max)
        if data is None:
            raise DocumentMissing(f"no document {path}: put it back, and judge again")
        if len(data) != reference.size or sha256(data).hexdigest() != reference.sha256:
            raise DocumentChanged(f"document {path} is not the one that the request names")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise DocumentChanged(f"document {path} is not UTF-8 text") from None
        if "\0" in text:
            raise DocumentChanged(f"document {path} has a NUL in it")
        return text


def _inside(folder: Path, path: str) -> bool:
    return (folder / path).resolve().is_relative_to(folder.resolve())
