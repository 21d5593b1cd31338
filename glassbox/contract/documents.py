"""Claim check: texts too large for a message lie in an object store, and the request names place, digest and size."""

from __future__ import annotations

import re
from dataclasses import dataclass

from glassbox.contract.request import ContractError, EvaluationRequest

MIB = 1024 * 1024

_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
"""What may follow a location: no empty, hidden or parent folder, no query, nothing to be decoded."""


@dataclass(frozen=True)
class DocumentRules:
    """What is followed. `locations`: `s3://BUCKET/PREFIX/` or `file:///FOLDER/`, the only places that are ever read.
    `document_max`, `request_max`: bytes of one document, and of all that a request refers to."""

    locations: tuple[str, ...] = ()
    document_max: int = 16 * MIB
    request_max: int = 64 * MIB

    def located(self, uri: str) -> tuple[str, str] | None:
        """(location, path below it); None for what lies anywhere else."""
        for location in self.locations:
            path = uri.removeprefix(location)
            if path != uri and _PATH.fullmatch(path):
                return location, path
        return None

    def check(self, request: EvaluationRequest) -> None:
        """Raises `ContractError` for a reference that would never be followed."""
        total = 0
        for field, reference in request.references():
            if self.located(reference.uri) is None:
                raise ContractError(f"{field}.uri", "is in none of the places of GLASSBOX_DOCUMENTS_URL")
            if reference.size > self.document_max:
                raise ContractError(f"{field}.size", f"{reference.size} bytes; at most {self.document_max}")
            total += reference.size
            if total > self.request_max:
                raise ContractError(f"{field}.size", f"the request's documents have over {self.request_max} bytes")
