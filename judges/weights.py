"""Which weights a model's name stands for, and how a method names them so that two verdicts can be compared."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from judges.port import JudgeError

_REVISION_DIGITS = 16


@dataclass(frozen=True)
class Weights:
    """`source`: a hub's name or a folder, as a library's loader takes it. `revision`: a hub's; None for the newest."""

    source: str
    revision: str | None = None

    @classmethod
    def named(cls, given: str) -> Weights:
        """`NAME`, `NAME@REVISION` or a local folder. Raises `JudgeError` (model_missing) for what is none of them."""
        path = Path(given).expanduser()
        if given and path.is_dir():
            return cls(str(path.absolute()))
        if given.startswith((".", "~", os.sep)):
            raise JudgeError("model_missing", f"there is no folder {given}")
        name, _, revision = given.partition("@")
        if not name:
            raise JudgeError("model_missing", f"{given!r} names no model; use NAME, NAME@REVISION or a folder")
        return cls(name, revision or None)

    def identity(self, resolved: str | None = None) -> str:
        """`NAME@REVISION`, the same on every machine that has the same weights: a folder's revision is the beginning
        of the SHA-256 of its files. `resolved`: the revision that the hub answered with, where the loader says so."""
        folder = Path(self.source)
        if folder.is_dir():
            return f"{folder.name}@sha256-{_digest(folder)[:_REVISION_DIGITS]}"
        return f"{self.source}@{resolved or self.revision or 'unknown'}"


def _digest(folder: Path) -> str:
    """Of names and contents; without notes and hidden files, which change nothing that the model says."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and path.suffix != ".md" and not any(part.startswith(".") for part in relative.parts):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256")
            whole.update(f"{relative.as_posix()}\0{content.hexdigest()}\n".encode())
    return whole.hexdigest()
