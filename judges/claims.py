"""Claims of an answer and the questions put to a model about them: schemas, prompts and the checks on what it says."""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from judges.llm import EndpointError, Output
from judges.llm.fence import RULE
from judges.text import normalise, sentences, words

UNDECIDED = "lexical:undecided"
"""How the offline model begins the reason of a claim that it answers as supported without being able to tell."""

SYNONYMS: Mapping[str, Literal[0, 1]] = {
    **dict.fromkeys(("1", "yes", "true", "supported"), 1),
    **dict.fromkeys(("0", "no", "false", "unsupported", "not supported"), 0),
}
"""What counts as 1 and as 0 where a model writes a word instead: in any case, with or without a full stop, and JSON's
true and false. Any other word ("partly", "idk", "oui") is no verdict."""


def _verdict(said: Any) -> Any:
    if isinstance(said, bool):
        return int(said)
    return SYNONYMS.get(said.strip().removesuffix(".").casefold(), said) if isinstance(said, str) else said


END_MARKS = " .,;:!?…。！？；，、۔؟।"

Binary = Annotated[Literal[0, 1], BeforeValidator(_verdict)]


# The schemas carry the names of Ragas' own, with the verdicts that Ragas leaves open confined to 0 and 1.
class StatementGeneratorOutput(Output):
    statements: list[str]


class StatementVerdict(Output):
    statement: str
    reason: str
    verdict: Binary


class NLIStatementOutput(Output):
    statements: list[StatementVerdict]


class ClaimVerdictsOutput(Output):
    """Claims and verdicts in one answer: the fused estimator, which Ragas does not have."""

    statements: list[StatementVerdict]


class AnswerRelevanceOutput(Output):
    question: str
    noncommittal: Binary


_TAKE_APART = """Go through the `answer` sentence by sentence. Write each thing that it asserts as one short statement
that can be understood and checked without the rest: put names for pronouns, with the help of the `question` where
needed; keep numbers, names, negations and doubts exactly as they are; add nothing and leave no assertion out.
Questions, greetings, thanks, and saying that one does not know or cannot answer assert nothing. Write in the language
of the answer."""

_CHECK = """The verdict on a statement is 1 when the `passages` say it, or it follows directly from what they say, all
of it; else 0, also where it is true but not in the passages, or where a number, name, date, negation or condition
differs. Use the passages alone, not what you know."""

SYSTEM: Mapping[type[Output], str] = {
    StatementGeneratorOutput: f"""You take an answer apart into the claims that it makes.

{_TAKE_APART}

{RULE}

Return JSON: {{"statements": ["...", ...]}}, an empty list where nothing is asserted. Example, without the fence:
{{"question": "Who runs the harbour?", "answer": "Since 1998 Nordkai has run it, but does not own it."}}
Output: {{"statements": ["Nordkai has run the harbour since 1998.", "Nordkai does not own the harbour."]}}""",
    NLIStatementOutput: f"""You check statements against passages.

{_CHECK}

{RULE}

Return JSON: {{"statements": [...]}} with exactly one object for each statement, in order, and no other:
{{"statement": the statement word for word, "reason": one short sentence, "verdict": 0 or 1}}. Example, without the
fence: {{"passages": ["Nordkai has run the harbour since 1998."], "statements": ["Nordkai owns the harbour."]}}
Output: {{"statements": [{{"statement": "Nordkai owns the harbour.", "reason": "Run, not own.", "verdict": 0}}]}}""",
    ClaimVerdictsOutput: f"""You take an answer apart into the claims that it makes, and check each against passages.

{_TAKE_APART} Do not look at the passages for this.

Then judge each statement. {_CHECK}

{RULE}

Return JSON: {{"statements": [...]}}, an empty list where nothing is asserted, else one object for each statement:
{{"statement": "...", "reason": one short sentence, "verdict": 0 or 1}}. Example, without the fence:
{{"passages": ["Nordkai has run the harbour since 1998."], "question": "Who owns the harbour?", "answer": "Nordkai."}}
Output: {{"statements": [{{"statement": "Nordkai owns the harbour.", "reason": "Run, not own.", "verdict": 0}}]}}""",
    AnswerRelevanceOutput: f"""You guess the question from the answer.

Write the one question that the `response` answers best, in the language of the response. Then say whether the response
is noncommittal: 1 where it avoids an answer ("I don't know", "it depends", "I cannot say"), 0 where it has substance.

{RULE}

Return JSON: {{"question": "...", "noncommittal": 0 or 1}}. Example, without the fence:
{{"response": "Nordkai has run the harbour since 1998."}}
Output: {{"question": "Who has run the harbour since 1998?", "noncommittal": 0}}""",
}
"""The system prompt of each step, by the schema of its output. The user's message is the step's data, fenced."""


def check_statements(statements: Sequence[str], answer: str, *, some: bool) -> None:
    """Raises `EndpointError` (malformed_output) for a statement without a word, for more statements than the answer
    has words, or for none at all where `some` says that the answer does assert something."""
    if not all(any(map(str.isalnum, statement)) for statement in statements):
        raise EndpointError("malformed_output", "a claim without a word")
    if some and not statements:
        raise EndpointError("malformed_output", "no claims from an answer that makes some")
    if len(statements) > 1 and len(statements) > len(words(answer)):
        raise EndpointError("malformed_output", f"{len(statements)} claims from {len(words(answer))} words")


def check_question(output: AnswerRelevanceOutput) -> None:
    """Raises `EndpointError` (no_question) for a question without a word."""
    if not any(map(str.isalnum, output.question)):
        raise EndpointError("no_question", "the model gave no question back")


def in_order(verdicts: Sequence[StatementVerdict], statements: Sequence[str]) -> list[StatementVerdict]:
    """The verdicts put in the order of the statements that they repeat: up to Unicode form and white space, or else
    up to case and punctuation. Each carries its statement as it was asked.

    Raises `EndpointError` (malformed_output) for fewer, more or other statements.
    """
    if len(verdicts) != len(statements):
        raise EndpointError("malformed_output", f"{len(verdicts)} verdicts for {len(statements)} claims")
    found: list[StatementVerdict | None] = [None] * len(statements)
    left = list(verdicts)
    for form in (_same, _words):
        waiting: dict[object, deque[StatementVerdict]] = defaultdict(deque)
        for verdict in left:
            waiting[form(verdict.statement)].append(verdict)
        for n, statement in enumerate(statements):
            if found[n] is None and (same := waiting.get(form(statement))):
                found[n] = same.popleft().model_copy(update={"statement": statement})
        left = [verdict for others in waiting.values() for verdict in others]
    ordered = [verdict for verdict in found if verdict is not None]
    if left or len(ordered) != len(statements):
        raise EndpointError("malformed_output", "the verdicts are not about the claims that were asked")
    return ordered


def distinct(claims: Iterable[str]) -> list[str]:
    """Each claim once, where and as it is made first."""
    first: dict[str, str] = {}
    for claim in claims:
        first.setdefault(same_claim(claim), claim)
    return list(first.values())


def same_claim(text: str) -> str:
    """What repeated claims have in common: their text up to Unicode form, white space, case and the end's marks."""
    return _same(text).casefold().rstrip(END_MARKS)


def _same(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _words(text: str) -> tuple[str, ...]:
    return tuple(normalise(token.text) for token in words(text))


def pieces(text: str, size: int) -> list[str]:
    """The text in pieces of at most `size` characters, whole sentences where they fit, else cut at white space where
    there is some. Joined, they are the text."""
    if len(text) <= size:
        return [text]
    stops = [span.end for span in sentences(text)]
    made, start, next_stop = [], 0, 0
    while len(text) - start > size:
        while next_stop < len(stops) and stops[next_stop] <= start + size:
            next_stop += 1
        end = stops[next_stop - 1] if next_stop else 0
        if end <= start:
            blank = max(text.rfind(mark, start, start + size) for mark in " \t\n")
            end = blank + 1 if blank > start else start + size
        made.append(text[start:end])
        start = end
    return [*made, text[start:]]


def wilson(k: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval for k of n, n at least 1 (Wilson 1927); 95 % by default; within [0, 1]."""
    p = k / n
    centre, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At 0 and n the bound is exact, and rounding must not put the share itself outside.
    return 0.0 if k == 0 else (centre - spread) / scale, 1.0 if k == n else (centre + spread) / scale
