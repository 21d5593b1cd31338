"""A comparison as a decision: may this candidate follow this base? For CI, with JUnit XML and Markdown to show why."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from glassbox.replay.compare import Change, Comparison, Verdict, cases_lost
from glassbox.replay.figures import amount, counts, difference, headings, interval_text, share_of_base
from glassbox.replay.taxonomy import CLASSES

Outcome = Literal["passed", "regressed", "unmeasured"]
EXIT_CODES: dict[Outcome, int] = {"passed": 0, "regressed": 1, "unmeasured": 2}

SHOWN = 50
"""Cases that Markdown lists under one metric."""

_MARKS: dict[Verdict, str] = {
    "regressed": "❌ regressed",
    "unclear": "❔ too few to tell",
    "not_measured": "❔ not measured",
    "improved": "✅ improved",
    "within_noise": "➖ within noise",
    "unchanged": "➖ unchanged",
    "not_applicable": "➖ not applicable",
}


@dataclass(frozen=True)
class Gate:
    """A decision. `failures`: metrics that regressed; `doubts`: those that got worse by more than they may where the
    cases are too few to tell, those that lost cases, and those that the candidate no longer has; `ignored`: metrics
    that do not decide."""

    comparison: Comparison
    failures: tuple[Change, ...]
    doubts: tuple[Change, ...]
    ignored: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        if self.failures:
            return "regressed"
        return "unmeasured" if self.doubts else "passed"

    @property
    def sentence(self) -> str:
        """The decision in one sentence."""
        if self.failures:
            return f"Regressed: {_names(self.failures)}"
        if self.doubts:
            return f"Could not tell: {_names(self.doubts)}"
        return "No regression"


def gate(comparison: Comparison, ignored: Collection[str] = (), *, allow_unclear: bool = False) -> Gate:
    """Decide. `ignored`: metrics that do not decide. `allow_unclear`: a change that the cases are too few to tell from
    chance passes; lost cases are no chance. A metric that the base does not have never stops a candidate; one that it
    lost does."""
    deciding = [change for change in comparison.changes if change.metric not in ignored]
    return Gate(
        comparison,
        tuple(change for change in deciding if change.verdict == "regressed"),
        tuple(change for change in deciding if _doubtful(change, allow_unclear)),
        tuple(sorted(ignored)),
    )


def _doubtful(change: Change, allow_unclear: bool) -> bool:
    if change.verdict == "unclear":
        return change.lost > 0 or (change.direction < 0 and not allow_unclear)
    return change.verdict == "not_measured" and change.base.n > 0


def _names(changes: tuple[Change, ...]) -> str:
    return ", ".join(change.metric for change in changes)


# JUnit XML, in the form that CI systems read: https://github.com/testmoapp/junitxml


def junit(decided: Gate) -> bytes:
    """A test case a metric: a regression is a failure, what could not be measured an error."""
    comparison = decided.comparison
    suite = _suite(len(comparison.changes), len(decided.failures), len(decided.doubts))
    for change in comparison.changes:
        case = ElementTree.SubElement(suite, "testcase", classname="glassbox.replay", name=change.metric)
        said = f"{change.metric}: {_line(change)}, {change.reason}"
        listed = "\n".join(_case_lines(change))
        if change in decided.failures:
            ElementTree.SubElement(case, "failure", type="regression", message=_xml(said)).text = _xml(listed)
        elif change in decided.doubts:
            ElementTree.SubElement(case, "error", type="unmeasured", message=_xml(said)).text = _xml(listed)
        elif change.verdict == "not_applicable" or change.metric in decided.ignored:
            reason = "ignored" if change.metric in decided.ignored else change.reason
            ElementTree.SubElement(case, "skipped", message=reason)
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(said)
    return _document(suite)


def junit_unable(reason: str) -> bytes:
    """The file of a gate that could not compare: one error."""
    suite = _suite(1, 0, 1)
    case = ElementTree.SubElement(suite, "testcase", classname="glassbox.replay", name="gate")
    ElementTree.SubElement(case, "error", type="unmeasured", message=_xml(reason))
    return _document(suite)


def _suite(tests: int, failures: int, errors: int) -> ElementTree.Element:
    counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors)}
    return ElementTree.Element("testsuite", {"name": "glassbox replay gate", **counts})


def _document(suite: ElementTree.Element) -> bytes:
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return b"%b\n" % ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml(text: str) -> str:
    """Without the characters that XML 1.0 §2.2 has no way to write."""
    return _NOT_XML.sub("\ufffd", text)


# Markdown, in the dialect of pull requests


def markdown(decided: Gate) -> str:
    """A summary: the decision, the table of metrics, what became of the cases, and the cases of each regression."""
    return "\n".join(_markdown(decided)) + "\n"


def markdown_unable(reason: str) -> str:
    """The summary of a gate that could not compare."""
    return f"## ❔ Replay gate: could not be measured\n\n{_md(reason)}\n"


_HEADS: dict[Outcome, str] = {
    "passed": "✅ Replay gate: no regression",
    "regressed": "❌ Replay gate: regression",
    "unmeasured": "❔ Replay gate: could not tell",
}


def _markdown(decided: Gate) -> Iterator[str]:
    found = decided.comparison
    yield f"## {_HEADS[decided.outcome]}"
    yield ""
    systems = [_md(heading) for heading in headings((found.base, found.candidate))]
    clean = [classes["success"] for classes in (found.classes_base, found.classes_candidate)]
    yield (
        f"**{systems[1]}** against **{systems[0]}** on {_md(found.candidate.suite.name)}: clean answers "
        f"{clean[0]} → **{clean[1]}** of {sum(found.classes_candidate.values())}. {_md(decided.sentence)}."
    )
    yield ""
    yield "| metric | base | candidate | change | 95 % interval | n | |"
    yield "| --- | ---: | ---: | ---: | :---: | ---: | --- |"
    for change in found.changes:
        yield f"| {' | '.join(_cells(change, change.metric in decided.ignored))} |"
    yield ""
    for note in found.notes:
        yield f"> {_md(note)}"
        yield ""
    yield from _classes(found)
    for change in (*decided.failures, *decided.doubts):
        yield from _details(change)
    runs = [run.digest[:12] for run in (found.base, found.candidate)]
    yield f"<sub>runs `{runs[0]}` and `{runs[1]}`, {found.cases} cases compared</sub>"


def _cells(change: Change, ignored: bool) -> Iterator[str]:
    yield f"{change.metric} {'↑' if change.better == 'higher' else '↓'}"
    yield amount(change.base.value, change.unit)
    yield amount(change.candidate.value, change.unit)
    of_base = share_of_base(change)
    yield difference(change.delta, change.unit) + (f" ({of_base})" if of_base else "")
    yield interval_text(change)
    yield counts(change)
    mark = f"❔ {cases_lost(change.lost)}" if change.lost and change.verdict == "unclear" else _MARKS[change.verdict]
    yield mark + (" (ignored)" if ignored else "")


def _classes(found: Comparison) -> Iterator[str]:
    rows = [(name, found.classes_base[name], found.classes_candidate[name]) for name in CLASSES]
    yield "| what became of the cases | base | candidate |"
    yield "| --- | ---: | ---: |"
    for name, before, after in rows:
        if before or after:
            yield f"| {name.replace('_', ' ')} | {before} | {after} |"
    yield ""


def _details(change: Change) -> Iterator[str]:
    if not change.cases:
        return
    yield f"<details><summary><b>{change.metric}</b>: {change.worse} cases got worse</summary>"
    yield ""
    yield "| case | base | candidate | |"
    yield "| --- | ---: | ---: | --- |"
    for case in change.cases[:SHOWN]:
        moved = case.before if case.before == case.after else f"{case.before} → {case.after}"
        values = (amount(value, change.unit) for value in (case.base, case.candidate))
        yield f"| `{case.case}` | {' | '.join(values)} | {moved.replace('_', ' ')} |"
    if change.worse > SHOWN:
        yield f"| … and {change.worse - SHOWN} more | | | |"
    yield ""
    yield "</details>"
    yield ""


def _line(change: Change) -> str:
    return f"{amount(change.base.value, change.unit)} -> {amount(change.candidate.value, change.unit)}"


def _case_lines(change: Change) -> Iterator[str]:
    for case in change.cases:
        values = " -> ".join(amount(value, change.unit) for value in (case.base, case.candidate))
        yield f"{case.case}: {values}, {case.before} -> {case.after}"


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~@&])")


def _md(text: str) -> str:
    """Text as text: nothing of it is markup, a mention or a new line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", "@\u200b")
