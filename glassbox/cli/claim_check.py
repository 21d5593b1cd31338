"""Claim check of requests that are sent: large texts go into the documents' place, and the request refers to them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from glassbox.contract.canonical import CanonicalError, strict_loads
from glassbox.contract.request import MAX_BODY

if TYPE_CHECKING:
    from glassbox.cli.inputs import Line
    from ledger.documents import StoredDocuments

_ENVELOPE = 256
"""About what a reference takes in a request, bytes."""


async def checked_in(lines: Iterable[Line], documents: StoredDocuments, over: int | None) -> AsyncIterator[Line]:
    """Each line with its texts of more than `over` bytes put into `documents`; without a limit only where a request is
    too large for a message, and of its texts the largest until it fits. What is no request stays as it is."""
    for number, raw in lines:
        value = None
        if over is not None or len(raw) > MAX_BODY:
            with suppress(CanonicalError):  # intake says what is wrong with it
                value = strict_loads(raw)
        changed = False
        for texts, place, text in _chosen(value, len(raw), over, documents.rules.document_max):
            reference = (await documents.put(text)).model_dump()
            given = texts[place] if isinstance(texts[place], dict) else {}
            texts[place] = {**{name: item for name, item in given.items() if name != "text"}, "reference": reference}
            changed = True
        yield number, json.dumps(value, ensure_ascii=False).encode() if changed else raw


def _chosen(value: Any, size: int, over: int | None, most: int) -> list[tuple[list[Any], int, bytes]]:
    """(list, place in it, text) of the texts to put away."""
    found = sorted(_texts(value), key=lambda text: len(text[2]), reverse=True)
    chosen = []
    for texts, place, text in found:
        wanted = size > MAX_BODY if over is None else len(text) > over
        if wanted and _ENVELOPE < len(text) <= most:
            size -= len(text) - _ENVELOPE
            chosen.append((texts, place, text))
    return chosen


def _texts(value: Any) -> Iterable[tuple[list[Any], int, bytes]]:
    for field in ("retrieved_passages", "source_documents"):
        texts = value.get(field) if isinstance(value, dict) else None
        for place, item in enumerate(texts if isinstance(texts, list) else ()):
            text = item.get("text") if isinstance(item, dict) else item
            if isinstance(texts, list) and isinstance(text, str):
                yield texts, place, text.encode()
