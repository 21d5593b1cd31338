"""`glassbox agreement FILE`: how well the judges agree with people, part by part."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox.cli.judge import JsonOption, MapOption

if TYPE_CHECKING:
    from glassbox.agreement.measure import Opinion
    from glassbox.cli.labels import Labelled
    from glassbox.contract.agreement import AgreementCard
    from glassbox.contract.policy import Policy
    from glassbox.contract.request import EvaluationRequest
    from glassbox.settings import Settings

Found = dict[int, dict[str, Any]]
"""Line -> part -> its verdict as JSON, with `method_digest` where the method's document is gone."""


@dataclass(frozen=True)
class _Sample:
    """A labelled line whose request keeps the contract."""

    labelled: Labelled
    request: EvaluationRequest

    @property
    def line(self) -> int:
        return self.labelled.line[0]


def agreement(
    file: Annotated[Path, typer.Argument(help="Requests with people's labels, JSON lines or CSV.")],
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART=PATH", help="Where a part's label stands in a line; by default under labels.PART. Repeatable."
        ),
    ] = None,
    mapping: MapOption = None,
    from_ledger: Annotated[
        bool, typer.Option("--from-ledger", help="Compare what stands on the ledger; by default judge here and now.")
    ] = False,
    policy: Annotated[
        str | None, typer.Option(help="Whose judges and targets; default GLASSBOX_POLICY. Lines' own are set aside.")
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(metavar="PART=X", help="A score above this, or 1, means yes; default the target. Repeatable."),
    ] = None,
    card: Annotated[
        Path | None, typer.Option(help="Write an agreement card, which a policy can name, here and to the data folder.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the reliability plots to this SVG file.")] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit 1 if a part's balanced accuracy is below this, or not known."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the judges' scores with people's labels: balanced accuracy, kappa, AUC and more, with intervals.

    A label is true or false (or 1, 0, yes, no) for a part: {"labels": {"faithfulness": true, "entities": false}}.
    Without `labels`, `label.supported` is that of faithfulness.

    Example: glassbox agreement labelled.jsonl --label faithfulness=label.supported --card card.json
    """
    from datetime import UTC, datetime

    from glassbox.agreement.figures import BOOTSTRAP
    from glassbox.agreement.measure import data_digest, part_agreement
    from glassbox.cli.agreement_text import report
    from glassbox.cli.errors import FINDING, UNABLE, CommandError, say
    from glassbox.cli.inputs import read_lines
    from glassbox.cli.labels import label_paths, labelled
    from glassbox.contract.agreement import AgreementCard, CardPolicy
    from glassbox.contract.policy import nearest
    from glassbox.settings import Settings

    settings = Settings.load()
    policies = settings.policies()
    chosen = policies.get(policy or settings.policy)
    if chosen is None:
        raise CommandError(f"no policy {policy!r} is configured{nearest(policy or '', policies)}")
    known = [name for judge in chosen.document["judges"].values() for name in judge["parts"]]
    paths = label_paths(label or [], known)
    targets = {name: part.target for name, part in chosen.parts().items()} | _thresholds(threshold or [], known)
    lines = list(read_lines(file, mapping or [], paths.values()))
    found = labelled(lines, paths, known)
    if not found:
        where = ", ".join(paths.values()) or "labels.PART (or label.supported, for faithfulness)"
        raise CommandError(f"no line of {file} has a label: there is nothing under {where}")
    parts = sorted({part for each in found for part in each.labels}, key=known.index)
    disabled = [part for part in parts if part not in chosen.parts()]
    if disabled:
        raise CommandError(
            f"policy {chosen.name!r} does not judge {disabled[0]}: choose another with --policy, or only other parts "
            "with --label"
        )

    samples, refused = _read(found, list(policies))
    read = _from_ledger(settings, samples) if from_ledger else _judged(settings, samples, chosen, parts)
    verdicts = asyncio.run(read)
    made = AgreementCard(
        measured_on=datetime.now(UTC).date().isoformat(),
        data=data_digest((sample.request, sample.labelled.labels) for sample in samples),
        policy=CardPolicy(name=chosen.name, digest=chosen.digest),
        bootstrap=BOOTSTRAP,
        parts=tuple(part_agreement(part, _opinions(part, found, verdicts), targets.get(part)) for part in parts),
    )
    if as_json:
        document = {"digest": made.digest(), "card": made.model_dump(mode="json")}
        print(json.dumps(document | {"lines": len(lines), "unlabelled": len(lines) - len(found), "refused": refused}))
    else:
        print("\n".join(report(made, unlabelled=len(lines) - len(found), refused=refused)))
    if not any(part.methods for part in made.parts):
        sys.exit(UNABLE)
    if card is not None:
        _keep(made, card, settings)
        say(f'card {made.digest()} is in {card}; a part of a policy names it: agreement = "{made.digest()}"')
    if plot is not None:
        _plot(made, plot)
    if fail_under is not None and any(_lowest(part) < Decimal(str(fail_under)) for part in made.parts):
        sys.exit(FINDING)


def _thresholds(options: Sequence[str], known: Sequence[str]) -> dict[str, Decimal]:
    from glassbox.cli.errors import CommandError
    from glassbox.contract.composite import PLACES
    from glassbox.contract.policy import nearest

    made = {}
    for option in options:
        part, equals, text = option.partition("=")
        try:
            value = Decimal(text) if equals else None
        except InvalidOperation:
            value = None
        if value is None or not 0 <= value <= 1 or value != round(value, PLACES):
            raise CommandError(f"--threshold {option}: must be PART=X with X from 0 to 1 and at most {PLACES} places")
        if part not in known:
            raise CommandError(f"--threshold {option}: no part is called {part!r}{nearest(part, known)}")
        made[part] = value
    return made


def _read(found: Sequence[Labelled], policies: Sequence[str]) -> tuple[list[_Sample], list[dict[str, Any]]]:
    """The samples, and where and why a line breaks the contract."""
    from glassbox.contract.canonical import CanonicalError
    from glassbox.contract.request import ContractError, parse_request

    samples, refused = [], []
    for each in found:
        number, raw = each.line
        try:
            request = parse_request(raw, policies).request
            request.canonical()
        except (ContractError, CanonicalError) as error:
            refused.append({"line": number, "field": error.field, "reason": error.reason})
        else:
            samples.append(_Sample(each, request))
    return samples, refused


async def _judged(settings: Settings, samples: Sequence[_Sample], policy: Policy, parts: Sequence[str]) -> Found:
    from glassbox.cli.local import bench, judge_lines
    from glassbox.cli.progress import Progress

    kinds = [kind for kind in policy.kinds() if policy.kind_settings(kind).keys() & set(parts)]
    found: Found = {}
    async with bench(settings, policy.name, only=kinds) as judges:
        with Progress("judged", len(samples)) as progress:
            lines = [sample.labelled.line for sample in samples]
            async for result in judge_lines(judges, lines, settings.worker_pool):
                found[result.line] = {verdict["part"]: verdict for verdict in result.verdicts}
                progress.update(len(found))
    return found


async def _from_ledger(settings: Settings, samples: Sequence[_Sample]) -> Found:
    """What the record says, with methods from the evidence; nothing for a record of other content."""
    from glassbox.cli.dossier import archive
    from glassbox.cli.progress import Progress

    found: Found = {}
    async with archive(settings) as standing:
        with Progress("read", len(samples)) as progress:
            for count, sample in enumerate(samples, 1):
                evaluation_id = sample.request.evaluation_id or sample.request.derived_id(settings.id_key())
                dossier = await standing.exactly(evaluation_id)
                if dossier is not None and (
                    dossier.request is None or dossier.request.request == sample.request.canonical()
                ):
                    rows = {row["part"]: row for row in dossier.record["parts"]}
                    found[sample.line] = {
                        part: _row_verdict(row) | dossier.verdicts.get(part, {}) for part, row in rows.items()
                    }
                progress.update(count)
    return found


def _row_verdict(row: dict[str, Any]) -> dict[str, Any]:
    """A verdict without its method, which the record has by digest alone."""
    fields = ("score", "low", "high") if row["state"] == "scored" else ("cause",)
    return {name: row[name] for name in ("part", "state", "method_digest", *fields)}


def _opinions(part: str, found: Sequence[Labelled], verdicts: Found) -> list[Opinion]:
    from pydantic import TypeAdapter

    from glassbox.agreement.measure import Opinion
    from glassbox.contract.verdict import Failed, NotApplicable, Scored, Verdict

    adapter: TypeAdapter[Scored | NotApplicable | Failed] = TypeAdapter(Verdict)
    opinions = []
    for each in found:
        if part not in each.labels:
            continue
        told = verdicts.get(each.line[0], {}).get(part)
        if told is None:
            opinions.append(Opinion(each.labels[part], None, None))
            continue
        digest = told.get("method_digest")
        verdict = adapter.validate_python({name: value for name, value in told.items() if name != "method_digest"})
        opinions.append(Opinion(each.labels[part], verdict, verdict.method.digest() if verdict.method else digest))
    return opinions


def _keep(made: AgreementCard, file: Path, settings: Settings) -> None:
    """The card where it was asked for, and where policies look for it."""
    kept = settings.cards_path / f"{made.digest()}.json"
    settings.make_data_dir()
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    for path in (file, kept):
        path.write_bytes(made.canonical())


def _plot(made: AgreementCard, file: Path) -> None:
    from glassbox.agreement.figures import RELIABILITY_FROM
    from glassbox.agreement.plot import svg_plot
    from glassbox.cli.errors import say

    panels = [(part.part, row.reliability) for part in made.parts for row in part.methods if row.reliability]
    if panels:
        file.write_text(svg_plot(panels), encoding="utf-8")
    else:
        say(f"{file} was not written: a reliability plot takes {RELIABILITY_FROM} labelled scores of a part")


def _lowest(part: Any) -> Decimal:
    values = [row.balanced_accuracy.value if row.balanced_accuracy else Decimal(-1) for row in part.methods]
    return min(values, default=Decimal(-1))
