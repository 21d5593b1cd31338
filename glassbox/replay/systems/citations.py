"""Citations that stand in an answer's text as its writer put them there: `[document-id]` after what rests on it."""

from __future__ import annotations

import re
from collections.abc import Collection

from glassbox.replay.trace import Citation
from judges.text import sentences

_ID = r"[A-Za-z0-9._-]{1,100}"
_MARKER = re.compile(rf"(?<!\s)\s*\[({_ID}(?:\s*[,;]\s*{_ID})*)\](?!\()")
"""One or several ids; not the text of a Markdown link."""


def read_markers(text: str, known: Collection[str] | None = None) -> tuple[str, tuple[Citation, ...]]:
    """The answer without its markers, and a citation for each id in one: it covers the sentence that the marker stands
    in or behind. Of `known` documents, if given: a marker with any other id is text like the rest."""
    kept: list[str] = []
    found: list[tuple[int, list[str]]] = []
    end = length = 0
    for marker in _MARKER.finditer(text):
        ids = re.split(r"\s*[,;]\s*", marker[1])
        if known is None or set(ids) <= set(known):
            kept.append(text[end : marker.start()])
            length += len(kept[-1])
            found.append((length, ids))
            end = marker.end()
    answer = "".join([*kept, text[end:]])
    spans = sentences(answer)
    if not spans:
        return answer, ()
    citations = (
        Citation(document=name, start=span.start, end=span.end)
        for position, ids in found
        for span in [next((span for span in reversed(spans) if span.start < position), spans[0])]
        for name in ids
    )
    return answer, tuple(dict.fromkeys(citations))
