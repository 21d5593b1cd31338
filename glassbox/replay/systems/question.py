"""Which kind of answer a question asks for, and whether a sentence can carry one: by its form, without a score.

For English questions and English documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from judges.text import content_words, normalise, words

Kind = Literal["person", "organisation", "place", "quantity", "date", "reason", "yes_no", "manner", "other"]


def _one_of(listed: str) -> str:
    """A pattern for one word of a list; "+" in it stands for a blank."""
    return rf"\b(?:{'|'.join(listed.split()).replace('+', ' ')})\b"


_ASKED: Mapping[Kind, str] = {
    "yes_no": r"^\W*" + _one_of("is are was were do does did can could may must will would should has have had"),
    "date": _one_of("when how+long how+soon how+fast how+often")
    + "|(?:what|which) "
    + _one_of("time day date month months year hour"),
    "quantity": _one_of("cost costs price how+much how+many how+old how+far how+high how+large from+which+age")
    + "|what (?:does|do|is|are|was) (?:it|the "
    + _one_of("price cost most least limit amount rate")
    + ")",
    "place": r"\bwhere\b|(?:what|which) " + _one_of("place town city street address country"),
    "person": _one_of("who whom whose"),
    "organisation": "(?:what|which) " + _one_of("body organisation organization company authority regulator agency"),
    "reason": _one_of("why for+what+reason"),
    "manner": r"\bhow\b|what (?:should|must|can) " + _one_of("i we one you a+customer"),
}
"""By the question's words; the first that is found holds."""

_NUMBER = (
    r"(?:[£$€]\s?\d|\d|"
    + _one_of("one two three four five six seven eight nine ten eleven twelve twenty thirty fifty hundred thousand")
    + "|"
    + _one_of("half third quarter free nothing once twice")
    + ")"
)
_DAY = _one_of(
    "January February March April May June July August September October November December"
    " Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
)
_TIME = _one_of("minutes? hours? days? weeks? months? years? seconds?")
_DURATION = rf"{_NUMBER}[\w-]*\W+(?:\w+\W+)?{_TIME}|" + _one_of("morning afternoon evening")
_NAME = r"(?<![.!?]\s)(?<!^)\b[A-Z][\w'’-]+"
"""A word with a capital that does not begin the sentence."""

_CARRIES: Mapping[Kind, re.Pattern[str]] = {
    "person": re.compile(
        f"{_NAME}|"
        + _one_of(
            "owners? customers? occupiers? tenants? landlords? managers? heads? directors? we ours? people households?"
        )
    ),
    "organisation": re.compile(_NAME),
    "place": re.compile(f"{_NAME}|" + _one_of("in at on under beside near inside outside") + " (?:the|a|an|our|any) "),
    "quantity": re.compile(_NUMBER, re.IGNORECASE),
    "date": re.compile(rf"{_DAY}|{_DURATION}|\b(?:1[5-9]|20)\d\d\b", re.IGNORECASE),
    "reason": re.compile(
        _one_of("because since as due+to so+that therefore to+avoid causes? caused owing"), re.IGNORECASE
    ),
}
"""What a sentence must have to carry the kind; the others (manner, yes or no, other) have no form of their own."""

_QUESTIONS = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _ASKED.items()}


def kind_of(question: str) -> Kind:
    """The kind of answer that a question asks for; a yes-or-no question begins with its verb."""
    return next((kind for kind, pattern in _QUESTIONS.items() if pattern.search(question)), "other")


def carries(kind: Kind, sentence: str, question: str) -> bool:
    """Whether a sentence has something of the kind that the question does not itself say."""
    pattern = _CARRIES.get(kind)
    if pattern is None:
        return True
    said = {normalise(word.text) for word in words(question)}
    return any(not _words(found[0]) <= said for found in pattern.finditer(sentence))


def _words(text: str) -> set[str]:
    return {normalise(word.text) for word in content_words(text) or words(text)}
