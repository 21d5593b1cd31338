"""`glassbox replay compare BASE CANDIDATE`: what got worse, and in which cases."""

from __future__ import annotations

from glassbox.cli.judge import JsonOption
from glassbox.cli.replay_inputs import (
    BaseArgument,
    CandidateArgument,
    CommonOption,
    CorpusOption,
    SuiteOption,
    ThresholdOption,
)


def compare(
    base: BaseArgument,
    candidate: CandidateArgument,
    threshold: ThresholdOption = None,
    common: CommonOption = False,
    suite: SuiteOption = None,
    corpus: CorpusOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hold a run against another over the same suite: each change with its interval, each regression with its cases.

    Example: glassbox replay compare runs/v2 runs/v3
    """
    from glassbox.cli.replay_inputs import Suites, compared
    from glassbox.cli.replay_text import comparison_lines

    suites = Suites(suite, corpus)
    found = compared(suites.evaluated(base), suites.evaluated(candidate, 1), threshold, common)
    print(found.model_dump_json() if as_json else "\n".join(comparison_lines(found)))
