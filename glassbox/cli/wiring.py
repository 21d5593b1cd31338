"""Which class judges a kind, and what it is given: the one place that joins settings and judges."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from glassbox.cli.errors import CommandError

if TYPE_CHECKING:
    from judges.llm import EndpointClient
    from judges.port import Judge

JUDGES: Mapping[str, str] = {
    "relevance": "judges.relevance:RelevanceJudge",
    "calibration": "judges.calibration:CalibrationJudge",
    "grounding": "judges.grounding:GroundingJudge",
    "terminology": "judges.terminology:TerminologyJudge",
    "structure": "judges.structure:StructureJudge",
}
"""Worker kind -> where its judge is. Imported when needed: some bring large libraries."""

ASKS_A_MODEL = frozenset(("relevance", "calibration", "grounding"))
"""The kinds whose judge is given a client of the model endpoint."""


def _judge_class(kind: str) -> Any:
    module, _, name = JUDGES[kind].partition(":")
    return getattr(importlib.import_module(module), name)


def _given(kind: str, client: EndpointClient | None) -> tuple[Any, ...]:
    """What a kind's judge is made of."""
    if kind not in ASKS_A_MODEL:
        return ()
    if client is None:
        raise CommandError(f"the {kind} judge needs the model endpoint")
    if kind == "calibration":
        from judges.calibration import EndpointEmbedder

        return (EndpointEmbedder(client),)
    return (client,)


def make_judge(kind: str, client: EndpointClient | None) -> Judge:
    """The judge of a kind. `client` belongs to the caller, who closes it after the judge.

    Raises `CommandError` with the package to install where a judge's library is missing.
    """
    from judges.port import JudgeError

    try:
        judge: Judge = _judge_class(kind)(*_given(kind, client))
    except JudgeError as error:
        raise CommandError(f"the {kind} judge cannot start: {error.detail or error.cause}") from None
    except ModuleNotFoundError as error:
        raise CommandError(
            f"the {kind} judge cannot start: {error.name} is not installed; install GlassBox with its dependencies"
        ) from None
    return judge
