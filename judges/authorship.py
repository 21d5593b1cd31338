"""Whether the model that judges an answer is the one that wrote it: models are kinder to what they say themselves."""

import re

from glassbox.contract.request import Model

JUDGE_IS_AUTHOR = "judge_is_author"
"""Flag of a verdict, and parameter of its method, where the judging model wrote the answer."""

_DATED = re.compile(r"[-@:](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{4}|latest)$")


def judge_is_author(author: Model | None, *judges: str | None) -> bool:
    """Whether one of the names of the judging model, as asked for or as served, is that of the answer's author.

    Names are compared without case, provider ("openai/") and snapshot ("-2024-08-06", "-latest"): two snapshots of
    one model count as one. An author without a name is nobody.
    """
    return author is not None and _plain(author.name) in {_plain(judge) for judge in judges if judge}


def _plain(name: str) -> str:
    return _DATED.sub("", name.strip().casefold().rsplit("/", 1)[-1])
