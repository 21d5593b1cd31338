"""`glassbox ledger`: a copy of the Merkle log while it is written, back from the copy, and whether either is whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.errors import FINDING, FINE

if TYPE_CHECKING:
    from ledger.audit import Audit

app = typer.Typer(no_args_is_help=True, help="The Merkle log: back it up, restore it, audit it.")


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="Where the copy is to stand; a folder without one.")],
) -> None:
    """Copy the log as it stands at one moment, also while a committer writes, and audit the copy.

    Evidence and keys are files that never change once they are there: copy those after the log, with any tool.

    Example: glassbox ledger backup /backup/2026-01-31
    """
    from glassbox.settings import Settings

    _copy(Settings.load().ledger_path, folder)


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="A copy made by `glassbox ledger backup`.")],
) -> None:
    """Put a copy in the place of a log that is lost, and audit it. A log that is there is never written over.

    Example: glassbox ledger restore /backup/2026-01-31
    """
    from glassbox.settings import Settings

    _copy(folder, Settings.load().make_data_dir() / "ledger")
    print(
        "what came after the copy is on glassbox.scorecards: docs/operations.md says how the committer takes it again"
    )


@app.command()
def audit(
    folder: Annotated[Path | None, typer.Argument(help="A copy; by default the log of the data folder.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="A verifier key that signs its checkpoints.")] = None,
    earlier: Annotated[list[Path] | None, typer.Option(help="A signed checkpoint of before that it must hold.")] = None,
) -> None:
    """Recompute the whole log: every record, every node of the tree, the root at every checkpoint. Exit 1 where
    something does not hold.

    Example: glassbox ledger audit --earlier monday.checkpoint
    """
    from glassbox.settings import Settings

    made = _audited(folder or Settings.load().ledger_path, key or [], earlier or [])
    print(_said(made))
    sys.exit(FINE if made.problem is None else FINDING)


def _copy(source: Path, target: Path) -> None:
    from contextlib import closing

    from ledger.log_file import LogFile

    with closing(LogFile(source, None)) as log:
        log.copy_to(target)
    made = _audited(target, [], [])
    print(f"{source} -> {target}: {_said(made)}")
    if made.problem is not None:
        sys.exit(FINDING)


def _audited(folder: Path, keys: list[str], earlier: list[Path]) -> Audit:
    from contextlib import closing

    from ledger.audit import audit as recomputed
    from ledger.checkpoint import VerifierKey
    from ledger.log_file import LogFile

    with closing(LogFile(folder, None)) as log:
        return recomputed(log, [VerifierKey.parse(each) for each in keys], [path.read_text() for path in earlier])


def _said(made: Audit) -> str:
    holds = f"it does not hold: {made.problem}" if made.problem else "every record and root holds"
    return f"{made.origin}, {made.tree_size} records, {made.checkpoints} checkpoints, root {made.root}: {holds}"
