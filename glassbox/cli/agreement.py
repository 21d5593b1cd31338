"""`glassbox agreement FILE`: how well the faithfulness verdict agrees with people."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassbox.cli.judge import JsonOption, MapOption

if TYPE_CHECKING:
    from glassbox.cli.inputs import Line
    from glassbox.settings import Settings


@dataclass(frozen=True)
class Confusion:
    """Counts of (people say supported) × (the judge says supported). `unjudged`: no score to compare."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0
    unjudged: int = 0

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool | None]]) -> Confusion:
        """From pairs of (label, verdict); a verdict of None is unjudged."""
        counts = {(True, True): 0, (False, True): 0, (True, False): 0, (False, False): 0}
        unjudged = 0
        for label, verdict in pairs:
            if verdict is None:
                unjudged += 1
            else:
                counts[label, verdict] += 1
        return cls(counts[True, True], counts[False, True], counts[True, False], counts[False, False], unjudged)

    @property
    def judged(self) -> int:
        return self.true_positive + self.false_positive + self.false_negative + self.true_negative

    @property
    def supported(self) -> int:
        """How many of the judged ones people call supported."""
        return self.true_positive + self.false_negative

    @property
    def balanced_accuracy(self) -> float | None:
        """Mean of the recalls of both classes, in [0, 1]; None where a class has no example."""
        unsupported = self.judged - self.supported
        if not self.supported or not unsupported:
            return None
        return (self.true_positive / self.supported + self.true_negative / unsupported) / 2

    @property
    def accuracy(self) -> float | None:
        return (self.true_positive + self.true_negative) / self.judged if self.judged else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa (1960): agreement beyond chance, in [-1, 1]; None where chance already agrees always."""
        n, accuracy = self.judged, self.accuracy
        if accuracy is None:
            return None
        said = self.true_positive + self.false_positive
        chance = (self.supported * said + (n - self.supported) * (n - said)) / n**2
        return None if math.isclose(chance, 1.0) else (accuracy - chance) / (1 - chance)

    @property
    def constant_accuracy(self) -> float | None:
        """Accuracy of always giving the more frequent label; its balanced accuracy is .5 and its kappa 0."""
        return max(self.supported, self.judged - self.supported) / self.judged if self.judged else None

    def to_json(self) -> dict[str, Any]:
        figures = {
            name: None if (value := getattr(self, name)) is None else round(value, 6)
            for name in ("balanced_accuracy", "kappa", "accuracy", "constant_accuracy")
        }
        return {
            "judged": self.judged,
            "unjudged": self.unjudged,
            "confusion": {
                "supported_and_judged_so": self.true_positive,
                "unsupported_but_judged_supported": self.false_positive,
                "supported_but_judged_unsupported": self.false_negative,
                "unsupported_and_judged_so": self.true_negative,
            },
            **figures,
            "constant_balanced_accuracy": 0.5,
        }


def agreement(
    file: Annotated[Path, typer.Argument(help="Requests with label.supported (true or false), JSON lines or CSV.")],
    mapping: MapOption = None,
    from_ledger: Annotated[
        bool, typer.Option("--from-ledger", help="Compare what stands on the ledger; by default judge here and now.")
    ] = False,
    policy: Annotated[str | None, typer.Option(help="For requests that name none; default GLASSBOX_POLICY.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Supported means a faithfulness score above this, or 1; default the target."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the faithfulness verdict with people's labels, beside a constant guess.

    Example: glassbox agreement labelled.jsonl
    """
    from glassbox.cli.errors import CommandError
    from glassbox.cli.inputs import label_of, read_lines
    from glassbox.settings import Settings

    lines = list(read_lines(file, mapping or []))
    labels = {number: label for number, raw in lines if (label := label_of(raw)) is not None}
    if not labels:
        raise CommandError(f"no line of {file} has a label: `label.supported` must be true or false")
    labelled = [line for line in lines if line[0] in labels]
    settings = Settings.load()
    read = _from_ledger(settings, labelled) if from_ledger else _judged(settings, labelled, policy)
    parts = asyncio.run(read)
    confusion = Confusion.of((labels[number], _supported(parts.get(number), threshold)) for number in labels)
    if as_json:
        print(json.dumps(confusion.to_json()))
    else:
        print("\n".join(_lines(confusion)))


def _supported(part: dict[str, Any] | None, threshold: float | None) -> bool | None:
    if part is None or part["score"] is None:
        return None
    if threshold is None and part["meets_target"] is not None:
        return bool(part["meets_target"])
    score = Decimal(part["score"])
    return score == 1 or (threshold is not None and score > Decimal(str(threshold)))


async def _judged(settings: Settings, lines: list[Line], policy: str | None) -> dict[int, dict[str, Any]]:
    from glassbox.cli.local import bench, judge_lines
    from glassbox.cli.progress import Progress

    found = {}
    async with bench(settings, policy) as judges:
        with Progress("judged", len(lines)) as progress:
            count = 0
            async for result in judge_lines(judges, lines, settings.worker_pool):
                count += 1
                progress.update(count)
                if result.card is not None:
                    found[result.line] = _faithfulness(result.card)
    return {line: part for line, part in found.items() if part is not None}


async def _from_ledger(settings: Settings, lines: list[Line]) -> dict[int, dict[str, Any]]:
    from glassbox.cli.inputs import evaluation_id_of
    from ledger.merkle_log import MerkleLog

    log = MerkleLog.reader(settings.ledger_path)
    found = {}
    try:
        for number, raw in lines:
            evaluation_id = evaluation_id_of(raw, settings.id_key)
            record = await log.read(evaluation_id) if evaluation_id else None
            if record is not None:
                found[number] = _faithfulness(record)
    finally:
        await log.close()
    return {line: part for line, part in found.items() if part is not None}


def _faithfulness(card: dict[str, Any]) -> dict[str, Any] | None:
    return next((part for part in card["parts"] if part["part"] == "faithfulness"), None)


def _lines(confusion: Confusion) -> list[str]:
    def figure(value: float | None) -> str:
        return "–" if value is None else f"{value:.3f}"

    return [
        f"{confusion.judged} answers with a label and a faithfulness score; {confusion.unjudged} without a score",
        f"{'':<22} {'people: supported':>18} {'unsupported':>12}",
        f"{'judge: supported':<22} {confusion.true_positive:>18} {confusion.false_positive:>12}",
        f"{'judge: unsupported':<22} {confusion.false_negative:>18} {confusion.true_negative:>12}",
        f"balanced accuracy {figure(confusion.balanced_accuracy)}  (a constant guess: 0.500)",
        f"kappa             {figure(confusion.kappa)}  (a constant guess: 0.000)",
        f"accuracy          {figure(confusion.accuracy)}  (a constant guess: {figure(confusion.constant_accuracy)})",
    ]
