"""Policies: the shipped ones say what the design says, and a mistake stops the start with its key."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.canonical import canonical, strict_loads
from glassbox.contract.judge_settings import Part, kind_of_parts
from glassbox.contract.policy import SHIPPED, Policy, PolicyError, load_policies
from glassbox.contract.record import check_policy, policy_digest
from glassbox.contract.verdict import KINDS

DESIGN: dict[str, tuple[str, dict[str, tuple[str, str | None]]]] = {  # judge -> (weight, part -> (weight, target))
    "contextual_precision": ("0.30", {"llm_relevance": ("0.70", "0.85"), "similarity_calibration": ("0.30", None)}),
    "semantic_faithfulness": ("0.40", {"faithfulness": ("0.60", "0.95"), "answer_relevancy": ("0.40", "0.80")}),
    "structural_fidelity": (
        "0.30",
        {"terminology": ("0.30", None), "entities": ("0.35", "0.90"), "relations": ("0.35", "0.90")},
    ),
}


def one(toml: str) -> Policy:
    return load_policies(f"[policy.mine]\n{toml}")["mine"]


def test_defaults_are_the_design_s() -> None:
    document = load_policies("")["default"].document
    for judge, (weight, parts) in DESIGN.items():
        written = document["judges"].pop(judge)
        assert (written["enabled"], written["weight"]) == (True, f"{weight}0000")
        assert written["parts"].keys() == parts.keys()
        for part, (v, target) in parts.items():
            assert written["parts"][part]["enabled"] is True
            assert written["parts"][part]["weight"] == f"{v}0000"
            assert written["parts"][part]["target"] == (target and f"{target}0000")
    assert document == {
        "schema_version": "1",
        "name": "default",
        "threshold": "0.800000",
        "vetoes": ["faithfulness"],
        "review_on": ["answer_relevancy", "entities", "llm_relevance"],
        "min_coverage": "0.500000",
        "abstention": "incomplete",
        "empty_context": "not_applicable",
        "deadline_s": "300.000000",
        "ledger": {},
        "judges": {},
    }


def test_part_settings_are_the_design_s() -> None:
    policy = load_policies("")["default"]
    assert policy.kind_settings("calibration")["similarity_calibration"]["higher_is_better"] is True
    assert policy.kind_settings("grounding")["answer_relevancy"]["strictness"] == 1
    assert policy.kind_settings("grounding")["faithfulness"]["empty_context"] == "not_applicable"
    assert policy.kind_settings("terminology")["terminology"]["reference"] == "aligned"
    structure = policy.kind_settings("structure")
    assert {"person", "organization", "location"} < set(structure["entities"]["labels"])
    assert {"works for", "located in"} < set(structure["relations"]["types"])
    assert (structure["relations"]["pair_limit"], structure["relations"]["both_directions"]) == (200, True)
    assert [structure[part]["threshold"] for part in structure] == ["0.500000", "0.500000"]
    asked = {**policy.kind_settings("relevance"), **policy.kind_settings("grounding")}
    assert {part: settings["repeats"] for part, settings in asked.items()} == dict.fromkeys(asked, 1)
    assert all(part.agreement is None for part in policy.parts().values())


def test_a_task_has_figures_as_the_policy_s_document_has_them() -> None:
    threshold = "[policy.mine.judges.structural_fidelity.parts.entities]\nthreshold = {}"
    written = {figure: one(threshold.format(figure)).kind_settings("structure") for figure in ("0.4", "0.40", "4e-1")}
    assert written["0.4"] == written["0.40"] == written["4e-1"]
    assert written["0.4"]["entities"]["threshold"] == "0.400000"


def test_shipped_policies_differ_from_the_default_only_where_the_design_says() -> None:
    policies = load_policies("")
    assert policies.keys() == {"default", "rag", "direct", "offline"} == SHIPPED.keys()
    default = policies["default"]
    assert different(default, policies["rag"]) == {"empty_context"}
    assert different(default, policies["direct"]) == {"judges.contextual_precision.enabled"}
    assert policies["direct"].kinds() == ("grounding", "terminology", "structure")
    relevancy = "judges.semantic_faithfulness.parts.answer_relevancy"
    offline = policies["offline"]
    changed = {path for path in different(default, offline) if not path.endswith(".target_family")}
    assert changed == {f"{relevancy}.target", "review_on"}
    assert offline.parts()["answer_relevancy"].target == Decimal("0.20")
    assert set(offline.review_on) - set(default.review_on) == {"relations"}
    assert {part.target_family for part in offline.parts().values()} == {"lexical", None}


def different(one: Policy, other: Policy) -> set[str]:
    a, b = flat(one.document), flat(other.document)
    return {path for path in a.keys() | b.keys() if a.get(path) != b.get(path)} - {"name"}


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    return {
        inner: leaf for key, item in value.items() for inner, leaf in flat(item, f"{path}.{key}".lstrip(".")).items()
    }


WRONG = [
    ("threshhold = 0.8", "policy.mine.threshhold: no such key; did you mean 'threshold'?"),
    ("threshold = 0.8000001", "policy.mine.threshold: .*6 decimal places"),
    ("threshold = 1.1", "policy.mine.threshold: must be at most 1"),
    ("threshold = nan", "policy.mine.threshold: .*finite"),
    ("threshold = true", "policy.mine.threshold: must be a number"),
    ("threshold = 'high'", "policy.mine.threshold: must be a number"),
    ("min_coverage = -0.1", "policy.mine.min_coverage: must be at least 0"),
    ("vetoes = ['faithfullness']", "policy.mine.vetoes: .*'faithfullness'; did you mean 'faithfulness'?"),
    ("vetoes = 'faithfulness'", "policy.mine.vetoes: must be a list"),
    ("review_on = [3]", "policy.mine.review_on.0: must be text"),
    ("abstention = 'maybe'", "policy.mine.abstention: .*'incomplete' or 'ignore'"),
    ("empty_context = 'fail'", "policy.mine.empty_context: .*'not_applicable' or 'unsupported'"),
    ("deadline_s = 0", "policy.mine.deadline_s: .*greater than 0"),
    ("name = 'other'", "policy.mine.name: no such key"),
    ("schema_version = '2'", "policy.mine.schema_version: must be '1'"),
    ("judges = 3", "policy.mine.judges: must be a table"),
    ("[policy.mine.judges.tone]", "policy.mine.judges.tone: no such key; a judge of your own needs a table of parts"),
    ("[policy.mine.judges.tone]\nweight = 1\nparts = {}", "policy.mine.judges.tone.parts: needs at least one$"),
    ("[policy.mine.judges.tone]\nparts.polite.weight = 1", "policy.mine.judges.tone.weight: is missing"),
    ("[policy.mine.judges.tone]\nweight = 1\nparts.polite.target = 0.5", "judges.tone.parts.polite.weight: is missing"),
    (
        "[policy.mine.judges.tone]\nweight = 1\nparts.entities.weight = 1",
        "tone.parts.entities: structural_fidelity has",
    ),
    ("[policy.mine.judges.tone]\nwieght = 1\nweight = 1\nparts.polite.weight = 1", "judges.tone.wieght: .*'weight'?"),
    (
        "[policy.mine.judges.tone]\nweight = 1\nkind = 'structure'\nparts.a.weight = 1",
        "judges.tone.kind: .*take another",
    ),
    ("[policy.mine.judges.join]\nweight = 1\nparts.a.weight = 1", "judges.join.kind: .*take another"),
    ("[policy.mine.judges.Tone]\nweight = 1\nparts.a.weight = 1", "judges.Tone: must be lower-case letters"),
    ("[policy.mine.judges.tone]\nweight = 1\nparts.A.weight = 1", "judges.tone.parts.A: must be lower-case letters"),
    (
        "[policy.mine.judges.tone]\nweight = 1\nparts.a = { weight = 1, B = 1 }",
        "judges.tone.parts.a.B: must be lower-case letters",
    ),
    ("[policy.mine.judges.tone]\nweight = 1\nparts.a = { weight = 1, b = { c = 1 } }", "parts.a.b: must be text, a n"),
    ("[policy.mine.judges.tone]\nweight = 1\nparts.a = { weight = 1, b = [[1]] }", "parts.a.b: must be text, a number"),
    ("[policy.mine.judges.tone]\nweight = 1\nparts.a = { weight = 1, b = 0.1234567 }", "parts.a.b: .*6 decimal places"),
    ("[policy.mine.judges.tone]\nweight = 1\nparts.a = { weight = 1, b = inf }", "parts.a.b: .*6 decimal places"),
    ("[policy.mine.judges.tone]\nweight = 1\nparts.a.weight = 0", "judges.tone.parts: the enabled weights sum to zero"),
    ("vetoes = ['polite']", "policy.mine.vetoes: no part is called 'polite'"),
    ("[policy.mine.ledger]\nchanel = 'c'", "policy.mine.ledger.chanel: must be 'channel' or 'chaincode'"),
    ("[policy.mine.judges.faithfulness]", "policy.mine.judges.faithfulness: no such key; did you mean"),
    ("[policy.mine.judges.structural_fidelity]\nweight = -1", "judges.structural_fidelity.weight: must be at least 0"),
    ("[policy.mine.judges.structural_fidelity]\nweight = inf", "judges.structural_fidelity.weight: .*finite"),
    (
        "[policy.mine.judges.semantic_faithfulness.parts.faithfulness]\nwieght = 1",
        "judges.semantic_faithfulness.parts.faithfulness.wieght: no such key; did you mean 'weight'?",
    ),
    (
        "[policy.mine.judges.semantic_faithfulness.parts.answer_relevancy]\nstrictness = 0",
        "parts.answer_relevancy.strictness: must be at least 1",
    ),
    (
        "[policy.mine.judges.semantic_faithfulness.parts.faithfulness]\nrepeats = 10",
        "parts.faithfulness.repeats: must be at most 9",
    ),
    (
        "[policy.mine.judges.semantic_faithfulness.parts.faithfulness]\nagreement = 'x'",
        "parts.faithfulness.agreement: must be 64 lower-case hexadecimal digits",
    ),
    (
        "[policy.mine.judges.structural_fidelity.parts.entities]\nlabels = []",
        "parts.entities.labels: needs at least one$",
    ),
    (
        "[policy.mine.judges.structural_fidelity.parts.entities]\nlabels = ['']",
        "parts.entities.labels.0: must not be empty",
    ),
    (
        "[policy.mine.judges.structural_fidelity.parts.entities]\nlabels = 'person'",
        "parts.entities.labels: must be a list",
    ),
    ("[policy.mine.judges.structural_fidelity.parts.entities]\nlabels = ['a', \"\\u0000\"]", "entities.labels.0.: NUL"),
    (
        "[policy.mine.judges.structural_fidelity.parts.relations]\npair_limit = 2001",
        "parts.relations.pair_limit: must be at most 2000",
    ),
    (
        "[policy.mine.judges.structural_fidelity.parts]\nterminology.weight = 0\nentities.weight = 0\n"
        "relations.enabled = false",
        "judges.structural_fidelity.parts: the enabled weights sum to zero",
    ),
    (
        "".join(f"[policy.mine.judges.{judge}]\nweight = 0\n" for judge in DESIGN),
        "policy.mine: judges: the enabled weights sum to zero",
    ),
    (
        "".join(f"[policy.mine.judges.{judge}]\nenabled = false\n" for judge in DESIGN),
        "policy.mine: judges: the enabled weights sum to zero",
    ),
]


@pytest.mark.parametrize(("toml", "message"), WRONG, ids=[message[:50] for _, message in WRONG])
def test_a_mistake_names_its_key(toml: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message.replace("?", r"\?")) as caught:
        one(toml)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[policy.mine]\nthreshold = high", "not TOML: .*line 2"),
        ("policy = 3", r"policy: must be tables \[policy.NAME\]"),
        ("[policy]\nthreshold = 0.5", r"policy: must be tables \[policy.NAME\]"),
        ("[policy.Mine]", "policy.Mine.name: must be lower-case letters"),
    ],
)
def test_a_document_that_is_no_policy(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        load_policies(text)


OWN = """
vetoes = ["polite", "faithfulness"]
review_on = ["brief"]
[policy.mine.judges.tone]
weight = 0.2
parts.polite = { weight = 1, target = 0.5, words = ["please", "thank you"], at_least = 2, strict = true, share = 0.25 }
parts.brief = { weight = 3, enabled = false }
[policy.mine.judges.house_style]
weight = 0.1
kind = "style"
parts.spelling.weight = 1
"""


def test_a_judge_of_ones_own_is_in_the_policy_like_the_others() -> None:
    policy = one(OWN)
    assert policy.kinds() == (*KINDS, "style", "tone")
    assert policy.own_kinds() == ("style", "tone")
    assert policy.kind_settings("tone").keys() == {"polite"}
    assert policy.parts().keys() - load_policies("")["default"].parts().keys() == {"polite", "spelling"}
    assert kind_of_parts(policy.document)["spelling"] == "style"
    assert kind_of_parts(policy.document)["brief"] == "tone"
    assert {part: kind for kind, parts in KINDS.items() for part in parts}.items() <= kind_of_parts(
        policy.document
    ).items()


def test_own_settings_are_the_same_in_document_and_task() -> None:
    policy = one(OWN)
    polite = policy.document["judges"]["tone"]["parts"]["polite"]
    assert polite == {
        "enabled": True,
        "weight": "1.000000",
        "target": "0.500000",
        "target_family": None,
        "agreement": None,
        "words": ["please", "thank you"],
        "at_least": "2.000000",
        "strict": True,
        "share": "0.250000",
    }
    assert policy.kind_settings("tone")["polite"] == polite
    back = Policy.from_document(strict_loads(canonical(policy.document)))
    assert back == policy
    assert (back.digest, back.kind_settings("tone")) == (policy.digest, policy.kind_settings("tone"))
    check_policy(policy.document)


def test_own_judges_can_be_switched_off() -> None:
    policy = one(
        f"{OWN}[policy.mine.judges.structural_fidelity]\nenabled = false\n".replace("0.2\n", "0.2\nenabled=false\n")
    )
    assert policy.own_kinds() == ("style",)
    assert policy.kind_settings("tone") == {}
    assert {"polite", "entities"}.isdisjoint(policy.parts())


def test_a_policy_without_own_judges_says_nothing_of_them() -> None:
    assert load_policies("")["default"].document["judges"].keys() == DESIGN.keys()


scalars = (
    st.booleans()
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
    | st.integers(1 - 10**12, 10**12 - 1)
    | st.decimals(-1000, 1000, places=6)
)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True), scalars | st.lists(scalars, max_size=4)))
def test_own_settings_come_back_from_the_document(settings: dict[str, Any]) -> None:
    own = {name: value for name, value in settings.items() if name not in Part.model_fields}
    judge = {"weight": 1, "parts": {"polite": {"weight": 1, **own}}}
    policy = Policy.model_validate({"name": "mine", "judges": {"tone": judge}})
    back = Policy.from_document(strict_loads(canonical(policy.document)))
    assert (back, back.digest) == (policy, policy.digest)
    assert back.kind_settings("tone") == policy.kind_settings("tone")
    assert own.keys() <= policy.kind_settings("tone")["polite"].keys()
    check_policy(policy.document)


def test_a_policy_that_announcements_could_not_carry_is_refused() -> None:
    words = json.dumps(["word" * 200] * 100)
    with pytest.raises(PolicyError, match=r"policy.mine: \d+ bytes in canonical form; at most 65536"):
        one(f"[policy.mine.judges.tone]\nweight = 1\nparts.a = {{ weight = 1, words = {words} }}")


def test_a_shipped_policy_is_overlaid_key_by_key() -> None:
    policies = load_policies(
        "[policy.offline]\nthreshold = 0.6\n"
        "[policy.offline.judges.semantic_faithfulness.parts.answer_relevancy]\nstrictness = 3"
    )
    relevancy = policies["offline"].parts()["answer_relevancy"]
    assert policies["offline"].threshold == Decimal("0.6")
    assert (relevancy.target, relevancy.target_family) == (Decimal("0.20"), "lexical")
    assert policies["default"].threshold == Decimal("0.80")


def test_a_target_can_be_taken_away() -> None:
    policy = one("[policy.mine.judges.structural_fidelity.parts.entities]\ntarget = 'none'")
    assert policy.parts()["entities"].target is None


def test_a_judge_without_an_enabled_part_counts_as_disabled() -> None:
    parts = "[policy.mine.judges.contextual_precision.parts]\n"
    policy = one(f"{parts}llm_relevance.enabled = false\nsimilarity_calibration.enabled = false")
    assert policy.parts().keys().isdisjoint(DESIGN["contextual_precision"][1])
    assert policy.kinds() == ("grounding", "terminology", "structure")
    assert policy.kind_settings("relevance") == {}


def test_kinds_in_order() -> None:
    assert load_policies("")["default"].kinds() == tuple(KINDS)


@pytest.mark.parametrize("name", SHIPPED)
def test_canonical_round_trip(name: str) -> None:
    policy = load_policies("")[name]
    written = canonical(policy.document)
    back = Policy.from_document(strict_loads(written))
    assert back == policy
    assert canonical(back.document) == written
    assert back.digest == policy.digest == policy_digest(policy.document)
    check_policy(json.loads(written))


weights = st.decimals(0, 1000, places=6, allow_nan=False).map(abs)


@given(weights, st.decimals(0, 1, places=6).map(abs), st.booleans())
def test_the_digest_is_of_the_meaning_not_of_the_writing(weight: Decimal, share: Decimal, enabled: bool) -> None:
    toml = (
        f"threshold = {{share}}\nvetoes = {{vetoes}}\n[policy.mine.judges.contextual_precision]\n"
        f"enabled = {str(enabled).lower()}\nweight = {{weight}}"
    )
    plain = one(toml.format(share=f"{share:f}", weight=f"{weight:f}", vetoes="['entities', 'relations']"))
    other = one(toml.format(share=f"{share:.6f}00", weight=f"{weight:.6f}", vetoes="['relations', 'entities']"))
    assert plain.digest == other.digest
    assert Policy.from_document(plain.document).digest == plain.digest
    assert all(isinstance(leaf, str | bool | list | dict | None) for leaf in flat(plain.document).values())


names = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=64)
    .map(str.strip)
    .filter(bool),
    min_size=1,
    max_size=20,
)


@given(
    names,
    names,
    st.integers(1, 9),
    st.integers(1, 2000),
    st.booleans(),
    st.none() | st.text("0123456789abcdef").map(lambda text: text.rjust(64, "0")[:64]),
)
def test_lists_and_counts_come_back_from_the_document(
    labels: list[str], types: list[str], repeats: int, limit: int, both: bool, card: str | None
) -> None:
    relations = {"types": types, "pair_limit": limit, "both_directions": both}
    structural = {"parts": {"entities": {"labels": labels, "agreement": card}, "relations": relations}}
    semantic = {"parts": {"faithfulness": {"repeats": repeats}}}
    policy = Policy.model_validate(
        {"name": "mine", "judges": {"structural_fidelity": structural, "semantic_faithfulness": semantic}}
    )
    back = Policy.from_document(strict_loads(canonical(policy.document)))
    assert back == policy
    assert back.digest == policy.digest
    parts = back.parts()
    assert parts["entities"].model_dump()["labels"] == tuple(sorted(set(labels)))
    assert parts["relations"].model_dump() | {"types": ()} == parts["relations"].model_dump() | relations | {
        "types": ()
    }
    assert back.kind_settings("grounding")["faithfulness"]["repeats"] == repeats


def test_the_order_of_labels_means_nothing() -> None:
    entities = "[policy.mine.judges.structural_fidelity.parts.entities]\nlabels = {}"
    assert one(entities.format(["b", "a"])).digest == one(entities.format(["a", " b ", "a"])).digest


def test_the_digest_changes_with_any_setting() -> None:
    digests = {
        one(toml).digest
        for toml in (
            "",
            "threshold = 0.800001",
            "vetoes = []",
            "deadline_s = 299",
            "ledger.channel = 'c'",
            "[policy.mine.judges.contextual_precision]\nenabled = false",
            "[policy.mine.judges.structural_fidelity.parts.terminology]\nreference = 'whole_sources'",
            "[policy.mine.judges.structural_fidelity.parts.entities]\nlabels = ['person']",
            f"[policy.mine.judges.structural_fidelity.parts.entities]\nagreement = '{'a' * 64}'",
        )
    }
    assert len(digests) == 9


def test_from_document_refuses_what_is_not_a_policy() -> None:
    with pytest.raises(PolicyError, match="threshold"):
        Policy.from_document({"name": "x", "threshold": "2"})
