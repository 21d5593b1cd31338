"""The page: what it shows, that nothing a model wrote becomes markup, and that its colours can be read."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbox.replay.compare import Tolerance, compare
from glassbox.replay.evaluate import EvaluationEngine
from glassbox.replay.report import SHOWN, Side, report
from glassbox.replay.report_case import LONGEST
from glassbox.replay.store import Run, SystemReference
from glassbox.replay.suite import Case, Document, Suite
from glassbox.replay.taxonomy import CLASSES
from glassbox.replay.trace import Citation, Invocation, InvocationError
from tests.replay.builders import failure, stored, suite, trace

ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "div", "span", "p", "b", "mark"),
    *(
        "h1",
        "h2",
        "h3",
        "details",
        "summary",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "ul",
        "li",
        "dl",
        "dt",
        "dd",
    ),
    *("svg", "g", "rect", "line", "circle", "text"),
}
VOID = {"meta", "rect", "line", "circle"}


class Page(HTMLParser):
    """Checks that a page is well formed and has only our own elements, and collects its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.marked: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "mark":
            self.marked.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)
        if "mark" in self.open and self.open[-1] == "mark":
            self.marked[-1] += data

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.text).split())


def side(folder: Path, of: Suite) -> Side:
    run = Run.open(folder, of)
    return Side(run, EvaluationEngine(of).evaluate(run))


@pytest.fixture(scope="module")
def sides(runs: dict[str, Path], tidewell: Suite) -> Mapping[str, Side]:
    return {version: side(folder, tidewell) for version, folder in runs.items()}


def test_two_runs_side_by_side(sides: Mapping[str, Side], tidewell: Suite) -> None:
    page = Page(report(tidewell, sides["v2"], sides["v3"]))
    for said in (
        "extractive v3 against extractive v2",
        "Regressed: citation_coverage, groundedness",
        "19 → 0 clean answers of 26",
        "22 of 26 cases changed class",
        "success → ungrounded bill-due : When is a bill due?",
        "A right answer names “21 days”.",
        "−1.000 … −1.000",
        "Documents that are cited or hold the answer",
    ):
        assert said in page.said, said
    assert len(page.marked) == 22 + 4 * 3  # and three sentences of each unanswerable case, answered by both
    assert any("21 days" in text for text in page.marked)


def test_every_pair_of_versions_is_well_formed(sides: Mapping[str, Side], tidewell: Suite) -> None:
    for base in sides.values():
        assert Page(report(tidewell, base)).said
        for candidate in sides.values():
            assert Page(report(tidewell, base, candidate)).said


def test_one_run_alone(sides: Mapping[str, Side], tidewell: Suite) -> None:
    page = Page(report(tidewell, sides["v4"]))
    assert "18 clean answers of 26" in page.said
    assert "wrong abstention meter-return" in page.said
    assert page.marked.count("The documents do not say.") == 4


def test_nothing_got_worse_between_a_run_and_itself(sides: Mapping[str, Side], tidewell: Suite) -> None:
    said = Page(report(tidewell, sides["v2"], sides["v2"])).said
    assert "No regression" in said
    assert "What got worse Nothing." in said


def test_the_same_runs_give_the_same_page(sides: Mapping[str, Side], tidewell: Suite) -> None:
    assert report(tidewell, sides["v1"], sides["v2"]) == report(tidewell, sides["v1"], sides["v2"])


def test_the_page_asks_nothing_of_a_network(sides: Mapping[str, Side], tidewell: Suite) -> None:
    text = report(tidewell, sides["v2"], sides["v3"])
    assert not {name for name, _ in Page(text).attributes} & {"src", "href", "srcset", "data", "action", "onload"}
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|https?:", text)


HOSTILE = (
    "</p></details></script><script>alert(1)</script> <img src=x onerror='x'> \"' ]]> &amp; $title ${body} \u202e\u2028"
)
ESCAPES = st.text(st.sampled_from("<>&\"'/=$ a\n.;\u202e"), min_size=1, max_size=60).filter(lambda s: "a" in s)


def hostile(folder: Path, text: str) -> Page:
    """A page in which a model, a system, a suite and a run say `text` wherever they can."""
    document = Document(id="doc", title=text, text=text)
    case = Case(id="case", question=text, keywords=((text,),), relevant=("doc",))
    lost = Case(id="lost", question=text, relevant=("doc",))
    of = Suite(text, {"case": case, "lost": lost}, {"doc": document}, "a" * 64, "b" * 64)
    citations = (Citation(document=text, start=0, end=1), Citation(document="doc", start=0, end=1))
    made = Invocation(answer=text, citations=citations, retrieved=())
    error = trace("lost", of, error=InvocationError(type="exception", message=text))
    system = SystemReference(name=text, version=text)
    found = side(stored(folder, of, trace("case", of, invocation=made), error, system=system), of)
    return Page(report(of, found, found) + report(of, found))


def test_what_a_model_wrote_is_text(tmp_path: Path) -> None:
    assert "<script>alert(1)</script>" in hostile(tmp_path, HOSTILE).said


@settings(max_examples=40)
@given(text=ESCAPES)
def test_whatever_a_model_writes_is_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    assert hostile(tmp_path_factory.mktemp("run"), text).said


def test_an_answer_of_a_megabyte_is_shown_in_part(tmp_path: Path) -> None:
    small = suite("a", "b")
    long = "It is nine, they say. " * 50_000
    words = Invocation(answer="nine" * 300_000)
    run = stored(
        tmp_path, small, trace("a", small, invocation=Invocation(answer=long)), trace("b", small, invocation=words)
    )
    text = report(small, side(run, small))
    assert len(text) < 60_000 + 8 * LONGEST
    assert "more characters" in text
    Page(text)


def test_errors_and_empty_answers_are_said(tmp_path: Path) -> None:
    small = suite("a", "b")
    empty = trace("b", small, invocation=Invocation(answer=""))
    run = stored(tmp_path, small, trace("a", small, error=failure("HTTP 429"), attempts=3), empty)
    page = Page(report(small, side(run, small)))
    assert "No answer: rate limited" in page.marked
    assert "HTTP 429" in page.said
    assert "3 attempts" in page.said
    assert "The answer is empty." in page.said


def test_of_many_cases_the_worst_are_shown(tmp_path: Path) -> None:
    many = suite(*(f"case-{n}" for n in range(SHOWN + 30)))
    good = [
        trace(
            case,
            many,
            invocation=Invocation(answer="It is nine.", citations=(Citation(document="doc", start=0, end=5),)),
        )
        for case in many.cases
    ]
    bad = [
        trace(case, many, error=failure()) if n % 10 == 9 else trace(case, many) for n, case in enumerate(many.cases)
    ]
    first, second = (side(stored(tmp_path / name, many, *some), many) for name, some in (("x", good), ("y", bad)))
    text = report(many, first, second)
    said = Page(text).said
    assert f"The {SHOWN} worst of {SHOWN + 30} cases." in said
    assert said.count("invocation error case-") == 7  # the errors come first
    assert said.index("invocation error case-69") < said.index("ungrounded case-0")


def test_a_comparison_of_ones_own_is_shown_as_it_is(sides: Mapping[str, Side], tidewell: Suite) -> None:
    lax = compare(
        sides["v2"].evaluation,
        sides["v3"].evaluation,
        {name: Tolerance(2, 0) for name in ("citation_coverage", "groundedness")},
    )
    assert "0 metrics regressed" in Page(report(tidewell, sides["v2"], sides["v3"], lax)).said


# Colours: WCAG 2.2, 1.4.3 (text 4.5 : 1) and 1.4.11 (what is drawn 3 : 1)

_TEMPLATE = (files("glassbox.replay") / "report.html").read_text(encoding="utf-8")
_SCHEMES = {
    name: dict(re.findall(r"--([\w-]+): (#\w+)", block))
    for name, block in zip(("light", "dark"), re.findall(r":root \{(.*?)\}", _TEMPLATE, re.DOTALL), strict=True)
}
_TEXT = [
    *[("ink", on) for on in ("page", "card", "plain-soft", "mark")],
    *[("quiet", on) for on in ("page", "card")],
    *[(kind, f"{kind}-soft") for kind in ("bad", "good", "doubt")],
]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", _SCHEMES)
@pytest.mark.parametrize(("text", "ground"), _TEXT)
def test_text_can_be_read(scheme: str, text: str, ground: str) -> None:
    colours = _SCHEMES[scheme]
    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("name", CLASSES)
def test_the_figures_in_the_bars_can_be_read(name: str) -> None:
    (colour,) = re.findall(rf"\.{name} \{{ --c: (#\w+); \}}", _TEMPLATE)
    assert contrast("#ffffff", colour) >= 4.5
