"""What became of a case: the first class whose condition holds, so that the counts always add up to the suite.

The order is causality. An error says nothing about the answer; whether to answer comes before what is answered; an
answer that rests on nothing is worse than one that lacks something; and a retrieval miss is only blamed where the
answer itself shows no fault, since an incomplete answer usually is the miss seen from its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from glassbox.replay.metrics import Corpus, abstains, groundedness, keyword_recall
from glassbox.replay.suite import Case
from glassbox.replay.trace import Trace

Class = Literal[
    "invocation_error",
    "wrong_abstention",
    "missed_abstention",
    "ungrounded",
    "incomplete",
    "retrieval_miss",
    "success",
]
CLASSES: tuple[Class, ...] = get_args(Class)

_RULES: Mapping[Class, Callable[[Case, Trace, Corpus], bool]] = {
    "invocation_error": lambda case, trace, corpus: trace.invocation is None,
    "wrong_abstention": lambda case, trace, corpus: case.answerable and _abstained(trace),
    "missed_abstention": lambda case, trace, corpus: not case.answerable and not _abstained(trace),
    "ungrounded": lambda case, trace, corpus: _below_one(groundedness(case, trace, corpus)),
    "incomplete": lambda case, trace, corpus: _below_one(keyword_recall(case, trace, corpus)),
    "retrieval_miss": lambda case, trace, corpus: _missed(case, trace),
    "success": lambda case, trace, corpus: True,
}


def classify(case: Case, trace: Trace, corpus: Corpus) -> Class:
    """The class of a case: invocation error; wrong abstention (answerable, not answered); missed abstention (the other
    way round); ungrounded (some sentence rests on no document that it cites); incomplete (some keyword is absent);
    retrieval miss (some relevant document was not retrieved); else success."""
    return next(name for name, holds in _RULES.items() if holds(case, trace, corpus))


def _abstained(trace: Trace) -> bool:
    return trace.invocation is not None and abstains(trace.invocation.answer)


def _below_one(value: float | None) -> bool:
    return value is not None and value < 1


def _missed(case: Case, trace: Trace) -> bool:
    made = trace.invocation
    if made is None or made.retrieved is None:
        return False
    return not {each.document for each in made.retrieved} >= set(case.relevant)
