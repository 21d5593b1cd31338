"""`glassbox show ID`: one scorecard with everything that stands behind it, and its arithmetic spelled out."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox.cli.judge import JsonOption

if TYPE_CHECKING:
    from rich.table import Table

    from glassbox.contract.spending import Spending
    from glassbox.dossier.archive import Dossier


MOST = 10
"""Names, and pairs, that are shown."""


def show(
    evaluation_id: Annotated[str, typer.Argument(metavar="ID", help="An evaluation id, or the beginning of one.")],
    as_json: JsonOption = False,
) -> None:
    """Show a scorecard: its parts and how each was judged, the claims of the answer, and how trust was computed.

    Example: glassbox show transit-fare-01
    """
    from glassbox.cli.proof import find
    from glassbox.settings import Settings

    settings = Settings.load()
    dossier = asyncio.run(find(settings, evaluation_id))
    if as_json:
        print(json.dumps(_to_json(dossier), ensure_ascii=False))
    elif dossier.record["kind"] != "scorecard":
        print(json.dumps(dict(dossier.record), indent=2))
    else:
        _print(dossier, settings.spending())


def _to_json(dossier: Dossier) -> dict[str, Any]:
    return {
        "record": dict(dossier.record),
        "record_digest": dossier.receipt.record_digest,
        "policy": dossier.policy,
        "verdicts": dossier.verdicts,
        "evidence": dossier.evidence,
        "erased_at": dossier.erased_at,
        "ledger": dossier.receipt.ledger,
        "proof": dict(dossier.receipt.proof),
    }


def _print(dossier: Dossier, spending: Spending) -> None:
    from rich.console import Console

    from glassbox.cli.agreement_text import carried
    from glassbox.dossier.reasons import printable

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False, markup=False)
    for line in _head(dossier):
        console.print(line)
    console.print(_parts(dossier))
    sections = (
        ("how far the judges agree with people", carried(dossier.evidence)),
        ("looks like an attack on the judges", suspicions(dossier)),
        ("claims", claims(dossier)),
        ("not in the sources", entities(dossier)),
        ("pairs that the sources do not have", pairs(dossier)),
        ("passages", passages(dossier)),
        ("cost", cost(dossier, spending)),
        ("trust", arithmetic(dossier)),
    )
    for title, lines in sections:
        if lines:
            console.print(title, style="bold")
            for line in lines:
                console.print(f"  {printable(line)}", soft_wrap=True)
    if dossier.erased_at is not None:
        console.print(f"The content was erased at {dossier.erased_at}; what stands here is all that is left.")
    elif dossier.request is None:
        console.print("The evidence store of this data folder has nothing of this evaluation.")


def _head(dossier: Dossier) -> Iterator[str]:
    record, proof = dossier.record, dossier.receipt.proof
    policy = dossier.policy or {}
    yield f"{record['evaluation_id']}  {record['outcome']}  trust {record['trust'] or '–'}"
    if record["reasons"]:
        yield f"because   {', '.join(record['reasons'])}"
    yield f"policy    {policy.get('name', '?')}  threshold {policy.get('threshold', '?')}  {record['policy_digest']}"
    yield f"judged    {record['closed_at']}, requested {record['requested_at']}"
    if dossier.receipt.ledger == "merkle":
        place = f"record {proof['index']} of {proof['tree_size']} in {proof['origin']}"
    else:
        place = f"block {proof['block_number']} of channel {proof['channel']}, transaction {proof['tx_id']}"
    yield f"ledger    {dossier.receipt.ledger}  {place}"
    yield f"digest    {dossier.receipt.record_digest}"


def _parts(dossier: Dossier) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from glassbox.dossier.reasons import why

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("judge", "part", "score", "bounds", "target"):
        table.add_column(name, no_wrap=True)
    table.add_column("why")
    table.add_column("method")
    targets = _targets(dossier.policy)
    for part in dossier.record["parts"]:
        verdict = dossier.verdicts.get(part["part"], {})
        target = targets.get(part["part"])
        met = {True: "met", False: "missed", None: "–"}[part["meets_target"]]
        bounds = "–" if part["low"] == part["high"] else f"{part['low'][:6]} to {part['high'][:6]}"
        said = why(part, dossier.evidence, verdict.get("detail", ""))
        flags = f" [{', '.join(verdict['flags'])}]" if verdict.get("flags") else ""
        table.add_row(
            part["judge"],
            part["part"],
            part["score"] or part["state"].replace("_", " "),
            bounds,
            f"> {target[:4]} {met}" if target else "–",
            Text((said.partition(": ")[2] or (said if part["score"] is None else "")) + flags),
            Text(_method(verdict.get("method"))),
        )
    return table


def _targets(policy: Mapping[str, Any] | None) -> dict[str, str | None]:
    judges = (policy or {}).get("judges", {})
    return {name: part["target"] for judge in judges.values() for name, part in judge["parts"].items()}


def _method(method: Mapping[str, Any] | None) -> str:
    if not method:
        return "–"
    model = f", {method['model']}" if method.get("model") else ""
    return f"{method['name']} ({method['library']} {method['version']}{model})"


def suspicions(dossier: Dossier) -> list[str]:
    """Each text that looks like an attack on the judges, with its words where they are not erased."""
    from glassbox.dossier.reasons import suspected

    request = None if dossier.request is None else json.loads(dossier.request.request)
    return suspected(dossier.evidence, request)


def claims(dossier: Dossier) -> list[str]:
    """Each claim of the answer, whether it is supported, and the judge's reason; of one that is not, its place in the
    answer."""
    from glassbox.dossier.reasons import evidence_of

    lines = []
    for claim in evidence_of("faithfulness", dossier.evidence).get("claims") or []:
        mark = "?" if claim.get("undecided") else "+" if claim.get("verdict") else "-"
        support = claim.get("support") or {}
        where = f" (rank {support['passage'] + 1})" if isinstance(support.get("passage"), int) else ""
        where += "" if mark == "+" else _place(claim.get("answer"))
        where += "" if claim.get("counted", True) else " (inside a suspected attack: not counted)"
        lines.append(f"{mark} {claim.get('text')}{where}")
        if claim.get("reason"):
            lines.append(f"    {claim['reason']}")
    return lines


def _place(span: Mapping[str, int] | Sequence[int] | None) -> str:
    """Where in the answer, if that is known."""
    if not span:
        return ""
    start, end = (span["start"], span["end"]) if isinstance(span, Mapping) else span
    return f" (characters {start} to {end})"


def entities(dossier: Dossier) -> list[str]:
    """The answer's names and values that no source has, and what comes nearest there; the first `MOST` of them."""
    from glassbox.dossier.reasons import evidence_of, plain, quoted, strange_entities

    lines = []
    for entity in strange_entities(evidence_of("entities", dossier.evidence)):
        near = f", nearest {quoted(entity['nearest'])}" if entity.get("nearest") else ""
        place = _place(next(iter(entity.get("spans") or ()), None))
        lines.append(f"- {quoted(entity.get('text'))}{place}: {plain(entity['status'])}{near}")
    return _capped(lines)


def pairs(dossier: Dossier) -> list[str]:
    """What the answer puts together and no source does; the first `MOST` of them."""
    from glassbox.dossier.reasons import evidence_of, plain, quoted, unsupported_pairs

    lines = []
    for pair in unsupported_pairs(evidence_of("relations", dossier.evidence)):
        one, other = map(quoted, pair["pair"])
        lines.append(
            f"- {one} {pair.get('predicate') or 'with'} {other}{_place(pair.get('clause'))}: {plain(pair['status'])}"
        )
    return _capped(lines)


def _capped(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST else [*lines[:MOST], f"… and {len(lines) - MOST} more"]


def passages(dossier: Dossier) -> list[str]:
    """Each passage in the retriever's order, whether it is relevant, and the judge's reason."""
    from glassbox.dossier.reasons import evidence_of

    found = evidence_of("llm_relevance", dossier.evidence).get("passages") or []
    lines = []
    for passage in sorted(found, key=lambda passage: passage.get("place", 0)):
        name = f"rank {passage.get('place', 0) + 1}{' ' + passage['id'] if passage.get('id') else ''}"
        if "verdict" in passage:
            mark = "+" if passage["verdict"] == "yes" else "-"
            lines.append(f"{mark} {name}: {passage.get('reason', '')}")
        elif "duplicate_of" in passage:
            lines.append(f"= {name}: the same as rank {passage['duplicate_of'] + 1}")
        else:
            lines.append(f"  {name}: blank")
    return lines


def cost(dossier: Dossier, spending: Spending) -> list[str]:
    """What each model took, and what all of it cost where each has a price."""
    from glassbox.contract.spending import usage_of

    usage = usage_of(dossier.evidence)
    lines = [
        f"{used.model}: {used.calls} call{'s' if used.calls > 1 else ''}, {used.prompt_tokens:,} + "
        f"{used.completion_tokens:,} tokens"
        for used in usage
    ]
    money = spending.cost(usage) if spending.prices and usage else None
    return lines if money is None else [*lines, f"{money:.6f} by the price table"]


def arithmetic(dossier: Dossier) -> list[str]:
    """How trust follows from the parts."""
    from glassbox.dossier.arithmetic import arithmetic as lines

    found = [] if dossier.policy is None else lines(dossier.record, dossier.policy)
    return [
        f"{line.label:<23} {line.text:<19}" + (f" = {line.value}" if line.value else f" {line.note}") for line in found
    ]
