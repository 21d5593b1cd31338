"""Cases that come to a suite one by one, each from an evaluation that somebody looked at: an incident becomes a
regression test.

A suite's folder is changed by one process at a time, and each of its files as a whole: whoever reads it meanwhile finds
a suite. The corpus is written first, so that no case ever names a document that is not there.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.replay.store import put_whole
from glassbox.replay.suite import CASES, CORPUS, Case, Document, Observed, Suite, SuiteError, load_suite

MOST_CASES = 2_000
"""Of a suite that cases are added to: each addition reads and writes all of them."""
_IDENTIFIER = re.compile(r"[A-Za-z0-9._-]{1,100}")


class CaseError(ValueError):
    """An evaluation that makes no case. `field`: what is wrong with it."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"{field}: {reason}")


class OtherExpectation(CaseError):
    """The suite has this evaluation's case, with another expectation."""


@dataclass(frozen=True)
class Incident:
    """What was asked, what it was answered from as (the producer's id, the text), and what went wrong. `relevant`:
    places of `texts`; it, `keywords` and `answerable` say what a right answer needs, as `Case` has them."""

    question: str
    texts: Sequence[tuple[str | None, str]]
    observed: Observed
    keywords: Sequence[Sequence[str]] = ()
    relevant: Sequence[int] = ()
    answerable: bool = True

    @property
    def expects(self) -> bool:
        """Whether it says what a right answer needs."""
        return bool(self.keywords or self.relevant or not self.answerable)

    @property
    def case_id(self) -> str:
        """The evaluation's id, or what stands for one that no suite can have."""
        name = self.observed.evaluation_id
        return name if _IDENTIFIER.fullmatch(name) else f"evaluation-{sha256_hex(name.encode())[:32]}"


@dataclass(frozen=True)
class Added:
    """`added`: false where the suite had this evaluation's case before. `cases`: how many it has."""

    case: str
    added: bool
    cases: int


def add_case(folder: Path, incident: Incident) -> Added:
    """Add a case to the suite in a folder, which is made for the first. An incident that says
    nothing of a right answer is content with the case that stands. Raises `CaseError`, as `OtherExpectation` where that
    case has another than the incident; `SuiteError` where what is
    there is no suite; OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(folder):
        suite = load_suite(folder) if (folder / CASES).exists() else None
        name = incident.case_id
        cases = len(suite.cases) if suite else 0
        if suite is not None and name in suite.cases:
            if incident.expects and _expected(_made(name, incident, suite)[0]) != _expected(suite.cases[name]):
                raise OtherExpectation("expectation", f"the suite has the case {name} with another one")
            return Added(name, False, cases)
        if cases >= MOST_CASES:
            raise CaseError("suite", f"has {cases} cases; name another")
        case, documents = _made(name, incident, suite)
        for file, lines in ((CORPUS, documents), (CASES, [case])):
            standing = (folder / file).read_bytes() if suite is not None else b""
            if standing and not standing.endswith(b"\n"):
                standing += b"\n"
            more = b"".join(canonical(line.model_dump(mode="json", exclude_none=True)) + b"\n" for line in lines)
            put_whole(folder / file, standing + more, 0o600)
        return Added(name, True, cases + 1)


def _expected(case: Case) -> tuple[object, ...]:
    return case.keywords, set(case.relevant), case.answerable


def _made(name: str, incident: Incident, suite: Suite | None) -> tuple[Case, list[Document]]:
    """The case, and the documents that the corpus does not have yet."""
    known = dict(suite.corpus) if suite else {}
    ids = {document.text: document.id for document in known.values()}
    made: list[Document] = []
    for wanted, text in incident.texts:
        if text not in ids and any(map(str.isalnum, text)):
            document = Document(id=_free(wanted, text, known), text=text)
            known[document.id] = document
            ids[text] = document.id
            made.append(document)
    if not known:
        raise CaseError("passages", "none has a letter or digit, and a suite needs a document")
    try:
        relevant = dict.fromkeys(ids[incident.texts[n][1]] for n in incident.relevant)
    except (IndexError, KeyError):
        raise CaseError(
            "expectation.relevant", "names a passage that is not there, or has no letter or digit"
        ) from None
    try:
        case = Case.model_validate(
            {
                "id": name,
                "question": incident.question,
                "keywords": incident.keywords,
                "relevant": list(relevant),
                "answerable": incident.answerable,
                "tags": ["incident"],
                "observed": incident.observed,
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "expectation"
        raise CaseError(where, first["msg"].removeprefix("Value error, ")) from None
    return case, made


def _free(wanted: str | None, text: str, known: Mapping[str, Any]) -> str:
    """The producer's id where it can stand in a suite and is no other text's; else one made of the text."""
    if wanted is not None and _IDENTIFIER.fullmatch(wanted) and wanted not in known:
        return wanted
    return f"text-{sha256_hex(text.encode())[:32]}"


def suites_in(folder: Path) -> Iterator[Suite]:
    """The suites in a folder, by name; what is none is left out."""
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            if (each / CASES).is_file():
                yield load_suite(each)
        except (SuiteError, OSError):
            continue


def copies(root: Path, evaluation_id: str) -> Iterator[Path]:
    """The suites in a folder, and in its tenants' own (@TENANT), that have a case of an evaluation."""
    for folder in (root, *sorted(root.glob("@*"))):
        for suite in suites_in(folder):
            if any(case.observed and case.observed.evaluation_id == evaluation_id for case in suite.cases.values()):
                yield folder / suite.name


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
