"""`glassbox ledger`: a copy of the Merkle log while it is written, the log back from it and from the receipts, and
whether it is whole."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox.cli.errors import FINDING, FINE, CommandError

if TYPE_CHECKING:
    from glassbox.cli.progress import Progress
    from glassbox.settings import Settings
    from ledger.audit import Audit
    from ledger.port import Receipt
    from ledger.rebuild import Rebuilt
    from streams.clients import Broker

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
    print("before a committer starts: `glassbox ledger rebuild` puts back what came after the copy")


@app.command()
def rebuild(
    key: Annotated[list[str] | None, typer.Option(help="A verifier key that signed before the present one.")] = None,
) -> None:
    """Put back what the log lacks from glassbox.receipts, in the order in which it stood, so that it is the log that
    signed the checkpoints which others keep. Exit 1 where some record has no receipt.

    Run it before a committer starts. Without a copy the whole log is made from the receipts.

    Example: glassbox ledger restore /backup/2026-01-31 && glassbox ledger rebuild
    """
    from glassbox.settings import Settings

    made = asyncio.run(_rebuilt(Settings.load(), key or []))
    print(f"{made.added} records put back from their receipts, {made.size} stand")
    if made.unproven:
        print(f"{made.unproven} receipts are of another log, or signed by a key that was not named (--key)")
    if made.size >= made.signed:
        sys.exit(FINE)
    print(
        f"record {made.size} has no receipt, and a checkpoint of {made.signed} records was signed: what follows comes "
        "back in another order, and who kept that checkpoint sees a fork (docs/operations.md)"
    )
    sys.exit(FINDING)


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


async def _rebuilt(settings: Settings, keys: list[str]) -> Rebuilt:
    from glassbox.cli.progress import Progress
    from ledger.checkpoint import VerifierKey
    from ledger.merkle_log import MerkleLog
    from ledger.rebuild import rebuild

    if not settings.signing_key_path.exists():
        raise CommandError(f"{settings.signing_key_path} is not there: put back the key that signed the log first")
    signer, broker = settings.signing_key(), settings.broker()
    known = {policy.digest: policy.document for policy in settings.policies().values()}
    log = await asyncio.to_thread(MerkleLog.committer, settings.ledger_path, signer)
    try:
        with Progress("receipts read") as progress:
            receipts = _receipts(broker, progress)
            vouching = [signer.verifier, *(VerifierKey.parse(each) for each in keys)]
            return await rebuild(log, vouching, receipts, lambda digest: known.get(digest) or _policy(broker, digest))
    finally:
        await log.close()


def _receipts(broker: Broker, progress: Progress) -> Iterator[Receipt]:
    """What stands on glassbox.receipts; what is no receipt is passed over."""
    from pydantic import ValidationError

    from glassbox.contract import events
    from ledger.port import Receipt
    from streams.clients import SURE_QUIET_S, read_all
    from streams.topics import RECEIPTS

    for number, message in enumerate(read_all(broker, RECEIPTS, quiet_s=SURE_QUIET_S), 1):
        progress.update(number)
        try:
            said = events.Receipt.model_validate_json(message.value() or b"", extra="ignore")
        except ValidationError:
            continue
        yield Receipt("exists", said.record, said.record_digest, said.ledger, said.proof)


def _policy(broker: Broker, digest: str) -> dict[str, Any] | None:
    """A policy that is not configured any more, as it was registered."""
    from pydantic import ValidationError

    from glassbox.contract.canonical import canonical, sha256_hex
    from glassbox.contract.events import ENTRY, PolicyRegistration
    from streams.clients import read_all
    from streams.topics import SCORECARDS

    for message in read_all(broker, SCORECARDS):
        if b'"policy"' not in (message.value() or b""):
            continue
        try:
            entry = ENTRY.validate_json(message.value() or b"", extra="ignore")
        except ValidationError:
            continue
        if isinstance(entry, PolicyRegistration) and sha256_hex(canonical(dict(entry.policy))) == digest:
            return dict(entry.policy)
    return None


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
