"""`glassbox recompute ID`: the verdicts of a record once more, from what the models said then."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox.cli.errors import FINDING, FINE, UNABLE, CommandError
from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from glassbox.cli.recomputation import Kind, Part, Recomputation
    from glassbox.dossier.archive import Dossier

_CODES = {True: FINE, False: FINDING, None: UNABLE}
_RESULTS = {
    "equal": "equal",
    "differs": "differs",
    "not_kept": "stands alone",
    "other_method": "the method has changed",
    "unknown": "cannot tell",
}
_LEFT = {"not_kept": "standing alone", "other_method": "by another method", "unknown": "untold"}


def recompute(
    evaluation_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="An evaluation id, or the beginning of one.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A bundle of `glassbox proof --with-evidence` instead; needs no data folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Judge a recorded evaluation again from its request and the raw model outputs kept with it, and compare. No model
    is asked.

    Whether the record stands in the signed log is not asked here: `glassbox verify` tells.

    Exit 0 all that can be recomputed is equal, 1 something differs, 2 it could not be told (erased, lost, or judged by
    a method that this build does not have).

    Example: glassbox recompute transit-fare-01
    """
    from glassbox.cli.recomputation import recompute as again
    from glassbox.cli.stores import documents
    from glassbox.settings import Settings

    if (evaluation_id is None) == (file is None):
        raise typer.BadParameter("give an evaluation id, or --file with a bundle")
    dossier, key = _stored(evaluation_id) if evaluation_id is not None else (_disclosed(file or Path()), None)
    made = asyncio.run(again(dossier, key, documents(Settings.load())))
    if as_json:
        print(json.dumps(_to_json(dossier, made), ensure_ascii=False))
    else:
        for line in _lines(dossier, made, file):
            print(line)
    sys.exit(_CODES[made.equal])


def _stored(evaluation_id: str) -> tuple[Dossier, bytes | None]:
    from glassbox.cli.proof import find
    from glassbox.settings import Settings

    settings = Settings.load()
    # A copy of ledger and evidence need not have the keys, and reading makes none.
    key = settings.id_key() if settings.id_key_path.exists() else None
    return asyncio.run(find(settings, evaluation_id)), key


def _disclosed(file: Path) -> Dossier:
    """The dossier that a bundle discloses, once everything in it but the signature was checked. `CommandError` for a
    file that is no bundle, or one without evidence."""
    from glassbox.dossier.archive import dossier_of
    from ledger.verify import summary, verify_bundle

    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    steps = verify_bundle(raw, [])
    if steps[-1].name == "format":
        raise CommandError(f"{file} is no proof bundle as `glassbox proof` writes it: {steps[-1].detail}")
    if steps[-1].name != "signature":
        print(summary(steps))
        sys.exit(_CODES[steps[-1].holds])
    dossier = dossier_of(raw)
    if dossier.request is None:
        raise CommandError(f"{file} holds no evidence: `glassbox proof ID --with-evidence` writes a bundle that does")
    return dossier


def _to_json(dossier: Dossier, made: Recomputation) -> dict[str, Any]:
    return {
        "evaluation_id": dossier.record["evaluation_id"],
        "equal": made.equal,
        "proof_checked": False,
        "kinds": [asdict(kind) for kind in made.kinds],
        "arithmetic": list(made.arithmetic),
        "composite": list(made.composite),
    }


def _lines(dossier: Dossier, made: Recomputation, file: Path | None) -> Iterator[str]:
    from glassbox.dossier.reasons import printable

    record = dossier.record
    yield f"{record['evaluation_id']}  {record['outcome']}  trust {record['trust'] or '–'}"
    for kind in made.kinds:
        for part in kind.parts:
            yield f"  {printable(_part(part))}"
        yield from (f"    {printable(line)}" for line in _beside(kind, made.fenced))
    for what, differences in (("recorded", made.arithmetic), ("recomputed", made.composite)):
        says = "; ".join(differences) or "arithmetic, trust and outcome are equal"
        yield f"  from the {what + ' verdicts:':<22} {printable(says)}"
    if file is not None:
        verify = f"`glassbox verify {file} --key KEY`"
        yield f"the proof (signature, place in the log) is not checked here: {verify} does that"
    yield _summary(made)


def _part(part: Part) -> str:
    figure = part.recorded["score"] or f"{part.recorded['state'].replace('_', ' ')} ({part.recorded['cause']})"
    detail = f": {part.detail}" if part.detail else f" ({figure})"
    return f"{part.part:<23} from the {part.source + ':':<13} {_RESULTS[part.result]}{detail}"


def _beside(kind: Kind, fenced: bool) -> Iterator[str]:
    if kind.evidence:
        yield f"the evidence of {kind.kind} differs at {kind.evidence}"
    if kind.reworded:
        why = "was the id key changed?" if fenced else "the key of their fences is not here"
        yield f"the prompts of {kind.kind} are not byte for byte those recorded ({why}); answers are matched by step"


def _summary(made: Recomputation) -> str:
    left = Counter(_LEFT[part.result] for part in made.parts if part.result in _LEFT)
    sources = Counter(part.source for part in made.parts if part.source != "verdict")
    head = {True: "all equal", False: "something differs", None: "cannot tell"}[made.equal]
    told = ", ".join(f"{count} from the {source}" for source, count in sources.items()) or "none recomputed"
    rest = "".join(f", {count} {how}" for how, count in left.items())
    return f"{head}: {len(made.parts)} parts, {told}{rest}"
