"""How far a reader of the ledger's events has come, in a file that outlives it."""

import json
import os
from pathlib import Path

from ledger.fabric.proposal import Position
from ledger.port import LedgerUnavailable


class PositionFile:
    """The position of the last event that was dealt with. Save it behind the event: after a crash the events since
    are seen again, and none is missed. Both methods may raise LedgerUnavailable."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Position | None:
        """What `FabricLedger.events` goes on behind; None before the first event."""
        try:
            block, tx_id = json.loads(self._path.read_text())
            return int(block), str(tx_id)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise LedgerUnavailable(
                f"{self._path} does not say which events were read ({error}): delete it to read them all again"
            ) from None

    def save(self, position: Position) -> None:
        """On disk when it returns."""
        temporary = self._path.with_name(f".{self._path.name}.new")
        try:
            with temporary.open("w") as file:
                json.dump(position, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise LedgerUnavailable(
                f"{self._path} cannot be written ({error.strerror}): make room, and let this user write there"
            ) from error
