"""`glassbox erase`: the content of an evaluation goes for good, its proof stays."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from glassbox.settings import Settings

_Result = Literal["erased", "erased before", "erased ahead", "not found"]


def erase(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Whole evaluation ids.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    ahead: Annotated[
        bool, typer.Option(help="Also where nothing is stored yet: the request will be refused when it comes.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase what was asked, answered, retrieved and found in an evaluation, for good, also while it is being judged.

    The ledger keeps its record, which holds no text, and the proof still verifies; nothing can be disclosed any more.
    The broker's topics keep the request until their retention ends (7 days; dead letters 30).
    Exit 1 if nothing is stored under an id.

    Example: glassbox erase transit-fare-01 --yes
    """
    from glassbox.cli.errors import FINDING, CommandError, say
    from glassbox.replay.cases import copies
    from glassbox.settings import Settings

    if not yes:
        if not sys.stdin.isatty():
            raise CommandError("erasing cannot be undone: say --yes where nobody can be asked")
        what = ids[0] if len(ids) == 1 else f"{len(ids)} evaluations"
        typer.confirm(f"Erase the content of {what}? This cannot be undone.", abort=True, err=True)
    settings = Settings.load()
    results = asyncio.run(_erase(settings, list(dict.fromkeys(ids)), ahead))
    for evaluation_id, result in results.items():
        for suite in copies(settings.suites_path, evaluation_id):
            say(f"{evaluation_id}: {suite} has a case with its texts, which somebody added: remove it there")
        if as_json:
            print(json.dumps({"evaluation_id": evaluation_id, "result": result}))
        else:
            print(f"{evaluation_id}: {_SAYS[result]}")
    sys.exit(FINDING if "not found" in results.values() else 0)


_SAYS: dict[_Result, str] = {
    "erased": "its content is erased",
    "erased before": "its content was erased before",
    "erased ahead": "nothing is stored; a request under this id will be refused",
    "not found": "nothing is stored under this id (give the whole id; --ahead refuses it before it comes)",
}


async def _erase(settings: Settings, ids: list[str], ahead: bool) -> dict[str, _Result]:
    from glassbox.cli.stores import evidence_store_to_write
    from glassbox.contract.events import rfc3339
    from ledger.evidence import EvidenceVault
    from ledger.port import Tombstone

    vault = EvidenceVault(await evidence_store_to_write(settings))
    results: dict[str, _Result] = {}
    try:
        for evaluation_id in ids:
            standing = await vault.request(evaluation_id)
            if standing is None and not ahead:
                results[evaluation_id] = "not found"
                continue
            await vault.erase(evaluation_id, rfc3339(time.time_ns() // 1_000_000))
            erased_before = isinstance(standing, Tombstone)
            results[evaluation_id] = "erased before" if erased_before else "erased" if standing else "erased ahead"
    finally:
        await vault.close()
    return results
