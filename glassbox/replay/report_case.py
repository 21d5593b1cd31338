"""One case of the report: its question, what each run answered, and the sentences that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassbox.replay.figures import amount
from glassbox.replay.metrics import citing, grounded, has_keyword
from glassbox.replay.report_parts import escaped, title_case
from glassbox.replay.suite import Case, Suite
from glassbox.replay.taxonomy import Class
from glassbox.replay.trace import Invocation, Trace

LONGEST = 4000
"""Characters of an answer or a document that are shown; the whole stands in the run and in the suite."""


@dataclass(frozen=True)
class Answered:
    """What one run made of a case; `name` of the run is "" where there is only one."""

    name: str
    outcome: Class
    trace: Trace | None


def case_section(suite: Suite, case: Case, sides: Sequence[Answered], *, is_open: bool) -> str:
    """A folded section; a click or a key opens it."""
    return "\n".join(_section(suite, case, sides, is_open))


def _section(suite: Suite, case: Case, sides: Sequence[Answered], is_open: bool) -> Iterator[str]:
    moved = " → ".join(_class(name) for name in dict.fromkeys(side.outcome for side in sides))
    yield f"<details{' open' if is_open else ''}>"
    yield f"<summary>{moved} <b>{escaped(case.id)}</b>: {escaped(_cut(case.question))}</summary>"
    yield from _expected(case)
    yield f"<div class='pair{' one' if len(sides) == 1 else ''}'>"
    for side in sides:
        yield "<section class='side'>"
        if side.name:
            yield f"<h3>{escaped(side.name)}</h3>"
        yield from _answer(suite, case, side)
        yield "</section>"
    yield "</div>"
    yield from _documents(suite, case, sides)
    yield "</details>"


def _class(name: Class) -> str:
    kind = {"success": "good", "invocation_error": "bad"}.get(name, "doubt" if name == "retrieval_miss" else "bad")
    return f"<span class='pill {kind}'>{title_case(name)}</span>"


def _expected(case: Case) -> Iterator[str]:
    if not case.answerable:
        yield "<p class='quiet'>The documents do not say: the right answer is to abstain.</p>"
        return
    if case.keywords:
        words = ", ".join(" or ".join(f"“{word}”" for word in keyword) for keyword in case.keywords)
        yield f"<p class='quiet'>A right answer names {escaped(words)}.</p>"


def _answer(suite: Suite, case: Case, side: Answered) -> Iterator[str]:
    trace = side.trace
    if trace is None:
        yield "<p class='quiet'>No trace.</p>"
        return
    if (made := trace.invocation) is None:
        assert trace.error is not None
        yield f"<p><mark>No answer: {title_case(trace.error.type)}</mark></p>"
        yield f"<p class='answer quiet'>{escaped(_cut(trace.error.message))}</p>"
    else:
        yield f"<p class='answer' dir='auto'>{''.join(_sentences(suite, side.outcome, made))}</p>"
        if not made.answer.strip():
            yield "<p class='quiet'>The answer is empty.</p>"
        yield from _faults(case, side.outcome, made)
    yield f"<p class='facts quiet'>{' · '.join(_facts(trace))}</p>"


def _sentences(suite: Suite, outcome: Class, made: Invocation) -> Iterator[str]:
    """The answer's text, each sentence followed by what it cites, and marked where it failed."""
    answer, at = made.answer, 0
    for span, documents in citing(made):
        if span.start >= LONGEST:
            break
        text = answer[span.start : span.end]
        why = _why(suite, outcome, text, documents)
        yield escaped(answer[at : span.start])
        shown = escaped(_cut(text))
        yield f"<mark>{shown}<span class='hidden'> ({why})</span></mark>" if why else shown
        yield from (f"<span class='cite'>{escaped(_cut(name, 60))}</span>" for name in sorted(documents))
        at = span.end
    rest = answer[at:]
    yield escaped(_cut(rest, max(0, LONGEST - at)))


def _why(suite: Suite, outcome: Class, text: str, documents: frozenset[str]) -> str:
    """Why a sentence failed, "" where it did not."""
    if outcome == "missed_abstention":
        return "answers what the documents do not say"
    if outcome == "wrong_abstention":
        return "does not answer"
    if outcome == "ungrounded" and not grounded(text, documents, suite.corpus):
        return "its words are not in what it cites" if documents else "cites nothing"
    return ""


def _faults(case: Case, outcome: Class, made: Invocation) -> Iterator[str]:
    if outcome == "ungrounded":
        yield "<p>Marked: sentences that cite nothing, or whose words are not in what they cite.</p>"
    missing = [keyword[0] for keyword in case.keywords if not has_keyword(made.answer, keyword)]
    if missing and outcome != "wrong_abstention":
        yield f"<p>Missing: {escaped(', '.join(f'“{word}”' for word in missing))}</p>"
    if made.retrieved is not None and (lost := set(case.relevant) - {each.document for each in made.retrieved}):
        yield f"<p>Not retrieved: {escaped(', '.join(sorted(lost)))}</p>"


def _facts(trace: Trace) -> Iterator[str]:
    yield amount(trace.duration_ms, "ms")
    if trace.attempts > 1:
        yield f"{trace.attempts} attempts"
    if (made := trace.invocation) is None:
        return
    if made.usage is not None:
        total = made.usage.prompt_tokens + made.usage.completion_tokens
        yield f"{total:,} tokens ({'as the API reports' if made.usage.provenance == 'api' else 'estimated'})"
    if made.retrieved is not None:
        names = ", ".join(escaped(_cut(each.document, 60)) for each in made.retrieved[:10])
        yield f"retrieved {names}" if names else "retrieved nothing"


def _documents(suite: Suite, case: Case, sides: Sequence[Answered]) -> Iterator[str]:
    made = [side.trace.invocation for side in sides if side.trace and side.trace.invocation]
    cited = {citation.document for each in made for citation in each.citations}
    wanted = [name for name in suite.corpus if name in cited or name in case.relevant]
    if not wanted:
        return
    yield "<details><summary>Documents that are cited or hold the answer</summary>"
    for name in wanted:
        document = suite.corpus[name]
        why = [said for said, names in (("holds the answer", case.relevant), ("cited", cited)) if name in names]
        yield f"<p><b>{escaped(document.title or name)}</b> <span class='cite'>{escaped(name)}</span>"
        yield f"<span class='quiet'>{' and '.join(why)}</span></p>"
        yield f"<p class='answer' dir='auto'>{escaped(_cut(document.text))}</p>"
    yield "</details>"


def _cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest:,} more characters)"
