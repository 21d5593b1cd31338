"""The registry: judges of installed packages, and a sentence for each way in which one cannot be used."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.canonical import sha256_hex
from glassbox.contract.policy import Policy, load_policies
from glassbox.contract.request import JudgeInput, Passage
from glassbox.contract.verdict import KINDS, Failed, NotApplicable, Scored
from judges.llm.recorded import RecordedClient, recorded_endpoint
from judges.port import NEEDS, Case, JudgeContext, Judgement
from judges.registry import BUILT_IN, OwnEntry, RegistryError, check, make_judge, own_entry, registered
from judges.run import answer
from tests.judges.conftest import Script, says
from tests.own_judges import MODULES, distribution

JUDGE = """
from judges.port import Judgement
from glassbox.contract.verdict import Scored

class Tone:
    kind = "tone"
    needs = {"answer"}
    parts = {"polite": {"words": ["please"], "at_least": 1, "share": 0.5, "strict": False, "name": "x"}, "brief": {}}

    def __init__(self, context):
        self.seen = []

    async def judge(self, case):
        self.seen.append(case)
        return Judgement(tuple(Scored.of(part, 0.5) for part in case.settings), {"polite": {"reason": "so"}})

    async def close(self):
        self.closed = True
"""

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Install]:
    """Install a distribution: its name, its entry points, its modules."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str = "glassbox-tone", entry_points: dict[str, str] | None = None, **modules: str) -> None:
        distribution(tmp_path, name, entry_points or {"tone": "tone_judge:Tone"}, **(modules or {"tone_judge": JUDGE}))
        monkeypatch.syspath_prepend(tmp_path)

    yield make
    for module in set(sys.modules) - before:
        if getattr(sys.modules[module], "__file__", None) and str(tmp_path) in str(sys.modules[module].__file__):
            del sys.modules[module]


def policy(toml: str) -> Policy:
    return load_policies(f"[policy.mine]\n{toml}")["mine"]


def using(settings: str = "", judge: str = "tone", part: str = "polite") -> Policy:
    settings = settings and f"{settings}, "
    return policy(f"[policy.mine.judges.{judge}]\nweight = 1\nparts.{part} = {{ {settings}weight = 1 }}")


def case(settings: Any, answer: str = "Thank you for asking.", **fields: Any) -> Case:
    return Case("e-1", JudgeInput(answer=answer, **fields), settings, time.monotonic() + 20)


# --- what is there


def test_the_product_s_kinds() -> None:
    assert BUILT_IN.keys() == NEEDS.keys() == KINDS.keys()
    made = make_judge("terminology", JudgeContext())
    assert (made.kind, made.needs) == ("terminology", NEEDS["terminology"])


def test_a_registered_judge(install: Install) -> None:
    install()
    assert registered().keys() == {"tone"}
    assert "tone_judge" not in sys.modules, "nothing is imported before it is needed"
    entry = check([using('words = ["danke"], at_least = 2'), load_policies("")["default"]])["tone"]
    assert (entry.package, entry.needs) == ("glassbox-tone 1.0", {"answer"})
    assert entry.parts.keys() == {"polite", "brief"}


def test_nobody_imports_what_no_policy_uses(install: Install) -> None:
    install()
    assert check(load_policies("").values()) == {}
    off = policy("[policy.mine.judges.tone]\nenabled = false\nweight = 1\nparts.polite.weight = 1")
    assert check([off]) == {}
    assert check([using()], kind="other") == {}
    assert "tone_judge" not in sys.modules


async def test_a_judge_sees_its_settings_whole_and_typed(install: Install) -> None:
    install()
    mine = using('words = ["danke", "bitte"], at_least = 2, share = 1, strict = true')
    made = make_judge("tone", JudgeContext())
    judgement = await answer(made, case(mine.kind_settings("tone")))
    assert [verdict.state for verdict in judgement.verdicts] == ["scored"]
    (seen,) = made._judge.seen  # type: ignore[attr-defined]
    polite = dict(seen.settings["polite"])
    assert polite["weight"] == "1.000000"
    assert {name: polite[name] for name in ("words", "at_least", "share", "strict", "name")} == {
        "words": ("danke", "bitte"),
        "at_least": 2,
        "share": 1.0,
        "strict": True,
        "name": "x",
    }
    await made.close()
    assert made._judge.closed  # type: ignore[attr-defined]


async def test_a_task_of_a_policy_that_this_version_does_not_know_fails_alone(install: Install) -> None:
    install()
    made = make_judge("tone", JudgeContext())
    judgement = await answer(made, case({"polite": {"weight": "1.000000", "loudness": "2.000000"}}))
    (verdict,) = judgement.verdicts
    assert isinstance(verdict, Failed)
    assert verdict.cause == "crashed"
    assert "loudness" in verdict.detail


# --- what is wrong with a policy

POLICIES = [
    (
        using(judge="tnoe"),
        "policy.mine.judges.tnoe: no installed package registers a judge 'tnoe'.*did you mean 'tone'",
    ),
    (using(judge="legal"), "no installed package registers a judge 'legal'.*install the package that has it"),
    (using(part="polit"), "judges.tone.parts.polit: the tone judge of glassbox-tone 1.0 has no such part.*'polite'"),
    (using(part="zzz"), "judges.tone.parts.zzz: .*it has brief, polite"),
    (using("wrods = ['a']"), "judges.tone.parts.polite.wrods: the tone judge .* no such setting; did you mean 'words'"),
    (using("words = 'a'"), r"parts.polite.words: must be a list like \['please'\]"),
    (using("words = [1]"), r"parts.polite.words\[0\]: must be text"),
    (using("at_least = 1.5"), "parts.polite.at_least: must be a whole number, like 1"),
    (using("at_least = true"), "parts.polite.at_least: must be a whole number"),
    (using("at_least = '2'"), "parts.polite.at_least: must be a whole number"),
    (using("share = 'half'"), "parts.polite.share: must be a number, like 0.5"),
    (using("strict = 1"), "parts.polite.strict: must be true or false, like False"),
    (using("name = 2"), "parts.polite.name: must be text, like 'x'"),
]


@pytest.mark.parametrize(("wrong", "message"), POLICIES, ids=[message[:50] for _, message in POLICIES])
def test_a_policy_that_asks_for_what_is_not_there(install: Install, wrong: Policy, message: str) -> None:
    install()
    with pytest.raises(RegistryError, match=message.replace("?", r"\?")) as caught:
        check([wrong])
    assert "\n" not in str(caught.value)


# --- what is wrong with a package

PLAIN = "class Tone:\n    kind, needs, parts = {}, {}, {}\n    def __init__(self, context): ...\n"
PACKAGES = [
    (
        {"tone": "nowhere:Tone"},
        "",
        "the tone judge of glassbox-tone 1.0 .* cannot be imported: ModuleNotFoundError: .*nowh",
    ),
    ({}, "raise RuntimeError('no licence')", "cannot be imported: RuntimeError: no licence"),
    ({}, "class Other: ...", "cannot be imported: AttributeError"),
    ({}, "class Tone: ...", "has no attribute 'kind'"),
    (
        {},
        PLAIN.format("'loud'", "{'answer'}", "{'polite': {}}"),
        "is of kind 'loud': its entry point must have that name",
    ),
    ({}, PLAIN.format("'tone'", "{'anwser'}", "{'polite': {}}"), "needs 'anwser', which no task carries.*'answer'"),
    (
        {},
        PLAIN.format("'tone'", "{'metadata'}", "{'polite': {}}"),
        "needs 'metadata', which no task carries: query, ans",
    ),
    ({}, PLAIN.format("'tone'", "'answer'", "{'polite': {}}"), "needs must be a set of names"),
    ({}, PLAIN.format("'tone'", "{'answer'}", "{}"), "parts must map each part to its own settings"),
    ({}, PLAIN.format("'tone'", "{'answer'}", "{'polite'}"), "parts must map each part to its own settings"),
    ({}, PLAIN.format("'tone'", "{'answer'}", "{'Polite': {}}"), "'Polite' cannot be a part"),
    (
        {},
        PLAIN.format("'tone'", "{'answer'}", "{'entities': {}}"),
        "'entities' is that of GlassBox's own structure judge",
    ),
    ({}, PLAIN.format("'tone'", "{'answer'}", "{'polite': 3}"), "the settings of polite must be a mapping"),
    ({}, PLAIN.format("'tone'", "{'answer'}", "{'polite': {'target': 1}}"), "polite.target cannot be a setting"),
    (
        {},
        PLAIN.format("'tone'", "{'answer'}", "{'polite': {'a': None}}"),
        "polite.a: the default must be text, a number",
    ),
    ({}, PLAIN.format("'tone'", "{'answer'}", "{'polite': {'a': []}}"), "polite.a: the default must be text, a number"),
    ({"Tone": "tone_judge:Tone"}, JUDGE, "glassbox-tone 1.0 registers a judge 'Tone': the name must begin"),
    ({"join": "tone_judge:Tone"}, JUDGE, "registers a judge 'join': that name is GlassBox's own"),
    ({"structure": "tone_judge:Tone"}, JUDGE, "registers a judge 'structure': that name is GlassBox's own"),
]


@pytest.mark.parametrize(("points", "module", "message"), PACKAGES, ids=[message[:50] for *_, message in PACKAGES])
def test_a_package_that_cannot_be_used(install: Install, points: dict[str, str], module: str, message: str) -> None:
    install(entry_points=points, tone_judge=module)
    with pytest.raises(RegistryError, match=message) as caught:
        check([using()])
    assert "\n" not in str(caught.value)


def test_two_packages_under_one_name(install: Install) -> None:
    install()
    install(name="other-tone")
    with pytest.raises(RegistryError, match=r"-tone 1.0 and .*-tone 1.0 both register a judge 'tone'; uninstall one"):
        check([using()])


def test_what_is_made_must_be_a_judge(install: Install) -> None:
    install(tone_judge=PLAIN.format("'tone'", "{'answer'}", "{'polite': {}}"))
    with pytest.raises(RegistryError, match=r"the tone judge of glassbox-tone 1.0 has no judge\(\) or no close\(\)"):
        own_entry("tone").make(JudgeContext())


BAD = {
    "None": "judge\\(\\) must return",
    "Judgement((), [])": "judge\\(\\) must return",
    "Judgement(('good',), {})": "each verdict must be",
    "Judgement((Scored.of('polite', 1), ), {}, ('text',))": "raw outputs must be bytes",
    "Judgement((Scored.of('polite', 1, flags=('\\ud800',)),), {})": "the verdict on polite is not JSON",
    "Judgement((Scored.of('polite', 1, method=M({'x': object()})),), {})": "the verdict on polite is not JSON",
    "Judgement((Scored.of('polite', 1, method=M({'x': 10 ** 30})),), {})": "the verdict on polite is not JSON",
    "Judgement((Scored.of('polite', 1),), {'x': float('nan')})": "evidence is not JSON",
    "Judgement((Scored.of('brief', 1),), {})": "0 verdicts instead of one",
    "1 / 0": "ZeroDivisionError",
}


@pytest.mark.parametrize(("returns", "detail"), BAD.items(), ids=BAD)
async def test_what_no_record_could_hold_is_a_crash(install: Install, returns: str, detail: str) -> None:
    method = "M = lambda parameters: Method(name='m', family='rules', library='l', version='1', parameters=parameters)"
    module = f"from glassbox.contract.verdict import Method\n{JUDGE}\n{method}\n"
    old = 'return Judgement(tuple(Scored.of(part, 0.5) for part in case.settings), {"polite": {"reason": "so"}})'
    install(tone_judge=module.replace(old, f"return {returns}"))
    judgement = await answer(make_judge("tone", JudgeContext()), case(using().kind_settings("tone")))
    (verdict,) = judgement.verdicts
    assert isinstance(verdict, Failed)
    assert (verdict.part, verdict.cause) == ("polite", "crashed")
    assert re.search(detail, verdict.detail)


# --- settings

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10)
scalars = {
    int: st.integers(-(10**9), 10**9),
    float: st.decimals(-1000, 1000, places=6).map(float),
    str: texts.filter(lambda text: not text.replace(".", "").strip("-").isdecimal()),
}


@given(st.data())
def test_settings_come_back_as_they_were_written(data: st.DataObject) -> None:
    values = data.draw(
        st.dictionaries(
            st.from_regex("own_[a-z]{1,5}", fullmatch=True),
            st.booleans()
            | st.one_of(*scalars.values())
            | st.one_of(*(st.lists(each, min_size=1, max_size=3).map(tuple) for each in scalars.values())),
        )
    )
    entry = OwnEntry("tone", "p 1", frozenset(), {"polite": values}, lambda _: None)
    written = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    judge = {"weight": 1, "parts": {"polite": {"weight": 1, **written}}}
    mine = Policy.model_validate({"name": "mine", "judges": {"tone": judge}})
    typed = entry.settings("polite", mine.kind_settings("tone")["polite"])
    assert {name: typed[name] for name in values} == values
    assert [type(typed[name]) for name in values] == [type(value) for value in values.values()]


# --- the page's own judges


def test_they_are_short() -> None:
    assert {kind: len(module.splitlines()) < 60 for kind, module in MODULES.items()} == {
        "citations": True,
        "tone": True,
    }


async def test_the_page_s_citations(install: Install) -> None:
    install("glassbox-citations", {"citations": "citations_judge:CitationsJudge"}, citations_judge=MODULES["citations"])
    made = make_judge("citations", JudgeContext())
    settings = using("at_least_words = 4", judge="citations", part="cited").kind_settings("citations")
    passages = [Passage(text="a"), Passage(text="b")]
    said = "The bridge opened in 1894. [1] It is long. Its towers are made of steel. [3] Nobody knows who drew it [2]!"

    async def judged(**fields: Any) -> Judgement:
        return await answer(made, case(settings, **fields))

    judgement = await judged(answer=said, retrieved_passages=passages)
    (verdict,) = judgement.verdicts
    assert isinstance(verdict, Scored)
    rows = judgement.evidence["cited"]["sentences"]
    assert [(said[slice(*row["span"])].strip()[:10], row["cites"], row["cited"]) for row in rows] == [
        ("The bridge", [1], True),
        ("Its towers", [3], False),
        ("Nobody kno", [2], True),
    ]
    assert str(verdict.score) == "0.666667"
    assert verdict.method is not None
    assert verdict.method.parameters == {"at_least_words": 4}
    (nothing,) = (await judged(answer=said, retrieved_passages=[])).verdicts
    (short,) = (await judged(answer="Yes.", retrieved_passages=passages)).verdicts
    assert [isinstance(v, NotApplicable) and v.cause for v in (nothing, short)] == ["no_passages", "too_short"]


async def test_the_page_s_judge_that_asks_a_model(install: Install, script: Script, connect: Any) -> None:
    install("glassbox-tone", {"tone": "asking_judge:ToneJudge"}, asking_judge=MODULES["tone"])
    script.steps = [says('{"reason": "It thanks.", "verdict": "polite"}')]
    made = make_judge("tone", JudgeContext(connect()))
    judgement = await answer(made, case(using().kind_settings("tone")))
    (verdict,) = judgement.verdicts
    assert isinstance(verdict, Scored)
    assert verdict.method is not None
    assert (str(verdict.score), verdict.method.model) == ("1.000000", "served-1")
    assert judgement.evidence["polite"]["reason"] == "It thanks."
    assert len(judgement.raw) == len(judgement.evidence["polite"]["calls"]) == 1
    assert "Thank you for asking." in script.requests[0]["messages"][1]["content"]
    calls = judgement.evidence["polite"]["calls"]
    kept = {sha256_hex(output): output for output in judgement.raw}
    recorded = RecordedClient(calls, kept, recorded_endpoint(calls, [verdict.method.model_dump()]), b"")
    again = await answer(make_judge("tone", JudgeContext(recorded)), case(using().kind_settings("tone")))
    assert again == judgement, "judged again from what the model said then"
    script.steps = [says('{"reason": "Hm.", "verdict": "perhaps"}')]
    (failed,) = (await answer(made, case(using().kind_settings("tone"), answer="Other."))).verdicts
    assert isinstance(failed, Failed)
    assert failed.cause == "malformed_output"


def test_a_judge_that_needs_a_model_says_what_is_missing(install: Install) -> None:
    install("glassbox-tone", {"tone": "asking_judge:ToneJudge"}, asking_judge=MODULES["tone"])
    with pytest.raises(Exception, match="no model endpoint is known: set GLASSBOX_LLM_BASE_URL"):
        make_judge("tone", JudgeContext())
