"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere; always on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_PLAIN_EVERY_S = 5.0


class Progress:
    """`total`: how much there is, None while nobody knows."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what, self._total, self._done = what, total, 0
        self._spoke, self._note = time.monotonic(), ""
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Bar(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=self._total, note="")
            self._bar.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int | None = None, note: str = "") -> None:
        """`done` of `total`; `note` says what is being waited for."""
        self._total = total if total is not None else self._total
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=self._total, note=note)
        elif (done, note) != (self._done, self._note) and time.monotonic() - self._spoke >= _PLAIN_EVERY_S:
            of = f"/{self._total}" if self._total is not None else ""
            print(f"{self._what}: {done}{of}{f'  {note}' if note else ''}", file=sys.stderr, flush=True)
            self._spoke, self._done, self._note = time.monotonic(), done, note
