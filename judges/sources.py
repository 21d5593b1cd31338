"""What an answer's wording and entities are held against: the source documents, or else the passages."""

from dataclasses import dataclass
from typing import Any

from glassbox.contract.request import JudgeInput


@dataclass(frozen=True)
class Sources:
    """`origin`: the request field that they come from. `ids`: the producer's id, or the position as text.
    Blank ones are left out and counted in `blank`."""

    origin: str
    texts: tuple[str, ...]
    ids: tuple[str, ...]
    blank: int

    def evidence(self) -> dict[str, Any]:
        """Where the figures come from, for a verdict's evidence."""
        return {"origin": self.origin, "ids": list(self.ids), "blank": self.blank}


def sources_of(case: JudgeInput) -> Sources:
    """The source documents where at least one has text, else the retrieved passages; maybe none at all."""
    documents = _sources("source_documents", case)
    return documents if documents.texts else _sources("retrieved_passages", case)


def _sources(origin: str, case: JudgeInput) -> Sources:
    given = (case.source_documents if origin == "source_documents" else case.retrieved_passages) or []
    kept = [(source.id or str(n), source.text) for n, source in enumerate(given) if not _blank(source.text)]
    return Sources(origin, tuple(text for _, text in kept), tuple(name for name, _ in kept), len(given) - len(kept))


def _blank(text: str) -> bool:
    return not any(character.isalnum() for character in text)
