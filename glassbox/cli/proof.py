"""`glassbox proof` and `glassbox verify`: one file that proves a record, and the check that needs nothing of ours."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from glassbox.dossier.archive import Dossier
    from glassbox.settings import Settings


def proof(
    evaluation_id: Annotated[str, typer.Argument(metavar="ID", help="An evaluation id, or the beginning of one.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write; - is standard output.")],
    with_evidence: Annotated[
        bool, typer.Option("--with-evidence", help="Disclose request, salt, evidence and raw outputs in it.")
    ] = False,
) -> None:
    """Write a record's proof bundle: the record, the policy it was judged by, and its place on the ledger.

    Without --with-evidence it holds no text of the evaluation.

    Example: glassbox proof transit-fare-01 -o proof.json
    """
    from glassbox.cli.errors import say
    from glassbox.cli.ledgers import own_roots
    from glassbox.settings import Settings

    settings = Settings.load()
    dossier = asyncio.run(find(settings, evaluation_id))
    bundle = bundle_of(dossier, with_evidence=with_evidence)
    if with_evidence and dossier.outputs.lost:
        say(f"{len(dossier.outputs.lost)} raw outputs are lost or damaged: the bundle has none of them")
    if str(output) == "-":
        sys.stdout.buffer.write(bundle)
        return
    # The file may disclose an evaluation: for its owner alone until they decide otherwise.
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(bundle)
    print(f"{output}: the proof of {dossier.record['evaluation_id']}; check it with")
    if dossier.receipt.ledger == "fabric":
        roots = own_roots(settings) or [f"{settings.fabric_msp_id or 'MSPID'}=CA.pem"]
        place = " ".join(f"--{name} {dossier.receipt.proof[name]}" for name in ("channel", "chaincode"))
        print(f"  glassbox verify {output} {' '.join(f'--root {root}' for root in roots)} {place}")
    else:
        print(f"  glassbox verify {output} --key {settings.signing_key().verifier}")


async def find(settings: Settings, evaluation_id: str) -> Dossier:
    """What stands under an id, or the beginning of one, in this data folder."""
    from glassbox.cli.dossier import archive

    async with archive(settings) as records:
        return await records.dossier(evaluation_id)


def bundle_of(dossier: Dossier, *, with_evidence: bool) -> bytes:
    """The bundle's bytes. Raises `CommandError` where what is to be disclosed was erased or is not here."""
    from glassbox.cli.errors import CommandError
    from glassbox.contract.canonical import strict_loads
    from ledger.bundle import Disclosure, make_bundle

    if not with_evidence:
        return make_bundle(dossier.receipt, dossier.policy)
    evaluation_id = dossier.record["evaluation_id"]
    if dossier.erased_at is not None:
        raise CommandError(f"the content of {evaluation_id} was erased at {dossier.erased_at}: its proof stays, alone")
    if dossier.request is None:
        raise CommandError(f"the evidence store has nothing of {evaluation_id}; leave --with-evidence out")
    request = strict_loads(dossier.request.request, max_depth=64)
    raw = None if dossier.outputs.lost else dossier.outputs.kept
    return make_bundle(dossier.receipt, dossier.policy, Disclosure(dossier.request.salt, request, dossier.sealed, raw))


def verify(
    file: Annotated[Path, typer.Argument(help="A proof bundle; - is standard input.")],
    key: Annotated[
        list[str] | None, typer.Option(metavar="VKEY", help="A verifier key that you trust; may be given again.")
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MSPID=FILE.pem",
            help="Fabric: an organisation that must have endorsed, and its certificate authorities; repeatable.",
        ),
    ] = None,
    endorsements: Annotated[
        int | None, typer.Option(metavar="N", help="Fabric: how many of them are enough; all, if left out.")
    ] = None,
    channel: Annotated[
        str | None, typer.Option(metavar="NAME", help="Fabric: the channel that it must be of; any, if left out.")
    ] = None,
    chaincode: Annotated[
        str | None, typer.Option(metavar="NAME", help="Fabric: the chaincode that it must be of; any, if left out.")
    ] = None,
    unsigned_validity: Annotated[
        bool,
        typer.Option(
            "--unsigned-validity",
            help="Fabric: take the word of whoever made the file that the transaction became valid.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a proof bundle: arithmetic, outcome, bytes, place on the ledger, signatures. Needs no network, no ledger.

    A Fabric proof shows what a transaction wrote, who endorsed it, and who read the
    record on the channel afterwards: without enough of those nobody signed that the
    transaction became valid, and the answer is 2. Name channel and chaincode: the same
    organisations may have others, with other records. Certificates are judged at the time that the sender
    wrote into the transaction; no revocation list is asked for.

    Exit 0 it holds, 1 it does not (such as: signed by none of the keys that you named), 2 it could not be told
    (such as: you named no key).

    Example: glassbox verify proof.json --key "$(cat auditor.vkey)"

    Example: glassbox verify proof.json --root Org1MSP=org1-ca.pem --root Org2MSP=org2-ca.pem --channel glassbox
    """
    from ledger.verify import exit_code, summary, trusted, verify_bundle

    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    trust = trusted(root or [], endorsements, channel, chaincode, unsigned_validity)
    steps = verify_bundle(raw, key or [], trust)
    if as_json:
        print(json.dumps([{"check": step.name, "holds": step.holds, "detail": step.detail} for step in steps]))
    else:
        print(summary(steps))
    sys.exit(exit_code(steps))
