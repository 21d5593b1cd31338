"""Notes of starts as files, for the embedded broker, which keeps no metadata of commits."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from streams.ports import SendFailed
from streams.starts import Note, Where

STARTS = "starts"
"""The folder of the notes, in the data folder."""


class FileNotes:
    """`starts.Notes` in a folder that the workers of a machine share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, where: Where) -> Note:
        return await asyncio.to_thread(self._read, where)

    async def write(self, where: Where, note: Note) -> None:
        try:
            await asyncio.to_thread(self._write, where, note)
        except OSError as error:
            raise SendFailed(f"{self._folder}: the start of a task cannot be noted ({error.strerror})") from error

    def _path(self, where: Where) -> Path:
        return self._folder / f"{where[0]}-{where[1]}"

    def _read(self, where: Where) -> Note:
        try:
            return Note.decode(self._path(where).read_text())
        except FileNotFoundError:
            return Note()

    def _write(self, where: Where, note: Note) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(where)
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        with beside.open("w") as file:
            file.write(note.encode())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)


def forget_notes(folder: Path) -> None:
    """A new embedded broker begins: its offsets have nothing to do with those of the last one."""
    shutil.rmtree(folder, ignore_errors=True)
