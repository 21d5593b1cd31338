"""One form for every line that a process logs, those of its libraries too: JSON, or readable on a terminal.

A line names its role and, where they apply, evaluation, topic, partition and offset (`structlog.contextvars`, bound for
each task). It never quotes an evaluation: libraries are heard from WARNING up whatever the level (some write what they
send at DEBUG), and an exception that is not ours is told by its class and place, without its message.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

Form = Literal["auto", "json", "text"]

OURS = ("glassbox", "judges", "ledger", "streams")
"""Loggers, and modules of exceptions, whose words never quote an evaluation."""

_FRAMES = 4


def configure(level: str, form: Form = "auto", stream: TextIO | None = None, **always: str) -> None:
    """Every logger of this process writes to `stream`, by default stderr. `level`: of our own lines. `form` auto: text
    on a terminal, JSON elsewhere. `always`: what each line says, as the role."""
    stream = stream or sys.stderr
    terminal = stream.isatty()
    text = form == "text" or (form == "auto" and terminal)
    render: Processor = (
        structlog.dev.ConsoleRenderer(colors=terminal) if text else structlog.processors.JSONRenderer(default=str)
    )

    def add(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {**always, **event}

    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.contextvars.merge_contextvars,
                add,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                _explain,
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in OURS:
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(True)


def _explain(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    info = event.pop("exc_info", None)
    if info and info[1] is not None:
        event["exception"] = " < ".join(_told(info[1]))
    return event


def _told(error: BaseException | None) -> Iterator[str]:
    """An exception and what caused it, each with the places that it came through, the innermost first."""
    while error is not None:
        kind = type(error)
        words = f": {error}" if kind.__module__.split(".")[0] in OURS else ""
        frames = traceback.extract_tb(error.__traceback__)[: -_FRAMES - 1 : -1]
        places = ", ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
        yield f"{kind.__name__}{words}" + (f" at {places}" if places else "")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
