"""Errors that are expected: one sentence on stderr and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from typing import TextIO

FINE, FINDING, UNABLE, AGAIN = 0, 1, 2, 3
"""Exit codes: fine; a negative finding; could not tell, or wrong use; of a role: start it again, as where no broker
answered."""


class CommandError(Exception):
    """Something that this command cannot do; the message names the next step."""


def say(sentence: str) -> None:
    """To people, on stderr: stdout is for what was asked."""
    print(f"glassbox: {sentence}", file=sys.stderr, flush=True)


def unheard(stream: TextIO) -> None:
    """The reader of a stream has gone (`| head`): nothing more to say to it, and nothing to flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def explained(error: Exception) -> str | None:
    """The sentence for an error that was to be expected; None for a fault of ours."""
    from glassbox.catalogue.errors import CatalogueError
    from glassbox.contract.policy import PolicyError
    from glassbox.contract.request import ContractError
    from glassbox.dossier.archive import NotOne
    from glassbox.gateway.private_file import KeysError
    from glassbox.replay.compare import ComparisonError
    from glassbox.replay.store import StoreError as RunError
    from glassbox.replay.suite import SuiteError
    from glassbox.settings import SettingsError
    from ledger.checkpoint import CheckpointError, KeyFormatError
    from ledger.port import LedgerError, StoreError
    from streams.clients import BrokerError
    from streams.tracing import TracingError

    known = (
        *(CommandError, SettingsError, PolicyError, ContractError),
        *(BrokerError, LedgerError, StoreError, CheckpointError, KeyFormatError),
        *(SuiteError, RunError, ComparisonError, TracingError, CatalogueError, KeysError, NotOne),
    )
    if isinstance(error, known):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, FileNotFoundError):  # the embedded broker's binary: its message is the sentence
        return str(error)
    return None
