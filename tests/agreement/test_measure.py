"""From opinions to an agreement card: what is counted where, and what a card says of a verdict."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from glassbox.agreement.figures import BOOTSTRAP
from glassbox.agreement.measure import Opinion, data_digest, part_agreement
from glassbox.contract.agreement import AgreementCard, CardData, CardError, CardPolicy, PartAgreement, read_card
from glassbox.contract.canonical import sha256_hex
from glassbox.contract.request import EvaluationRequest, parse_request
from glassbox.contract.schemas import schemas
from glassbox.contract.verdict import Failed, Method, NotApplicable, Scored

TARGET = Decimal("0.95")


def method(rules: str = "1") -> Method:
    return Method(name="m", family="rules", library="glassbox", version="1", parameters={"rules": rules})


def scored(label: bool, score: float, low: float | None = None, rules: str = "1") -> Opinion:
    made = method(rules)
    return Opinion(label, Scored.of("faithfulness", score, low=low, method=made), made.digest())


def card(part: PartAgreement) -> AgreementCard:
    return AgreementCard(
        measured_on="2026-11-30",
        data=CardData(digest="d" * 64, n=part.labelled),
        policy=CardPolicy(name="offline", digest="e" * 64),
        bootstrap=BOOTSTRAP,
        parts=(part,),
    )


def test_what_has_no_score_is_counted_apart() -> None:
    opinions = [
        scored(True, 1.0),
        scored(False, 0.5),
        Opinion(True, NotApplicable(part="faithfulness", cause="no_claims"), None),
        Opinion(False, Failed(part="faithfulness", cause="timeout"), None),
        Opinion(False, None, None),
    ]
    made = part_agreement("faithfulness", opinions, TARGET)
    assert (made.labelled, made.positives, made.unjudged) == (5, 2, 1)
    assert (made.not_applicable, made.failed) == ({"no_claims": 1}, {"timeout": 1})
    (figures,) = made.methods
    assert (figures.n, figures.positives, figures.undecided) == (2, 1, 0)
    assert figures.balanced_accuracy is not None
    assert figures.balanced_accuracy.value == figures.accuracy == 1
    assert figures.constant_accuracy == Decimal("0.5")
    assert figures.method == method()


def test_undecided_are_those_whose_bounds_lie_on_both_sides_of_the_target() -> None:
    opinions = [scored(True, 1.0), scored(False, 1.0, 0.5), scored(False, 0.5, 0.2), scored(True, 0.97, 0.96)]
    (figures,) = part_agreement("faithfulness", opinions, TARGET).methods
    assert figures.undecided == 1
    assert figures.balanced_accuracy is not None
    assert figures.decided is not None
    assert figures.balanced_accuracy.value == Decimal("0.75")
    assert figures.decided.value == 1, "without the one that could not be told"


def test_methods_stand_apart() -> None:
    opinions = [scored(True, 1.0), scored(False, 1.0), scored(True, 1.0, rules="2")]
    made = part_agreement("faithfulness", opinions, TARGET)
    assert [(row.digest, row.n) for row in made.methods] == [(method().digest(), 2), (method("2").digest(), 1)]


def test_without_a_target_stands_what_needs_none() -> None:
    (figures,) = part_agreement("faithfulness", [scored(True, 1.0), scored(False, 0.5)], None).methods
    assert figures.balanced_accuracy is figures.confusion is figures.undecided is None
    assert figures.auc is not None
    assert figures.suggestion is not None


def test_one_class_is_no_agreement_but_it_is_counted() -> None:
    (figures,) = part_agreement("faithfulness", [scored(True, 1.0)] * 3, TARGET).methods
    assert figures.balanced_accuracy is figures.kappa is figures.auc is figures.suggestion is None
    assert figures.confusion is not None
    assert figures.confusion.true_positive == 3


OPINIONS = st.lists(
    st.one_of(
        st.builds(
            lambda label, score, rules: scored(label, score, 0.0, rules),
            st.booleans(),
            st.floats(0, 1),
            st.sampled_from("12"),
        ),
        st.builds(Opinion, st.booleans(), st.none(), st.none()),
    ),
    max_size=30,
)


@settings(max_examples=25)
@given(OPINIONS, st.none() | st.decimals(0, 1, places=3))
def test_a_card_comes_back_from_its_bytes_and_its_digest_is_theirs(
    opinions: list[Opinion], target: Decimal | None
) -> None:
    made = card(part_agreement("faithfulness", opinions, target))
    again = read_card(made.canonical())
    assert again == made
    assert again.digest() == made.digest() == sha256_hex(made.canonical())
    part = made.parts[0]
    assert part.unjudged + sum(row.n for row in part.methods) == len(opinions)
    assert read_card(made.model_dump_json(indent=2).encode()).digest() == made.digest(), "however it is spaced"


@pytest.mark.parametrize(
    ("path", "to", "says"),
    [
        (("measured_on",), "today", "measured_on: "),
        (("parts", 0, "methods", 0, "n"), -1, "parts.0.methods.0.n: "),
        (("parts", 0, "methods", 0, "digest"), "a" * 64, "not that of the method"),
        (("schema_version",), "2", "schema_version: "),
        (("colour",), "red", "colour: "),
    ],
)
def test_what_is_no_card_is_refused_with_its_field(path: tuple[Any, ...], to: Any, says: str) -> None:
    made = card(part_agreement("faithfulness", [scored(True, 1.0)], TARGET))
    document = made.model_dump(mode="json")
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    with pytest.raises(CardError, match=says):
        read_card(json.dumps(document).encode())


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"a": 1, "a": 2}'])
def test_other_bytes_are_no_card(raw: bytes) -> None:
    with pytest.raises(CardError):
        read_card(raw)


def test_a_card_speaks_only_of_its_own_method_and_target() -> None:
    made = card(part_agreement("faithfulness", [scored(True, 1.0), scored(False, 0.5)], TARGET))
    own = made.summary("faithfulness", method().digest(), TARGET)
    assert own["balanced_accuracy"]["value"] == "1.000000"
    assert (own["n"], own["target"]) == (2, "0.950000")
    assert made.summary("faithfulness", method("2").digest(), TARGET) == {"foreign": "method"}
    assert made.summary("entities", method().digest(), TARGET)["foreign"] == "method"
    assert made.summary("faithfulness", method().digest(), Decimal("0.9"))["foreign"] == "target"


def test_the_published_schema_takes_cards_and_refuses_what_is_none() -> None:
    many = [scored(n % 3 > 0, (n % 11) / 10, 0.0) for n in range(220)] + [Opinion(True, None, None)]
    validator = Draft202012Validator(schemas()["agreement-card.json"])
    for opinions, target in ((many, TARGET), (many, None), ([scored(True, 1.0)], TARGET), ([], TARGET)):
        document = json.loads(card(part_agreement("faithfulness", opinions, target)).canonical())
        validator.validate(document)
        assert not validator.is_valid({**document, "note": "x"})
        for key in document:
            assert not validator.is_valid({name: value for name, value in document.items() if name != key}), key
    row = json.loads(card(part_agreement("faithfulness", many, TARGET)).canonical())
    row["parts"][0]["methods"][0]["kappa"]["value"] = 0.5
    assert not validator.is_valid(row)


def request(**fields: Any) -> EvaluationRequest:
    body = {"query": "q", "answer": "a", "retrieved_passages": ["p"], **fields}
    return parse_request(json.dumps(body).encode(), []).request


def test_data_digest_is_of_what_was_judged_and_said() -> None:
    one, two = (request(), {"faithfulness": True}), (request(answer="b"), {"faithfulness": False})
    assert data_digest([one, two]) == data_digest([two, one])
    assert data_digest([one, two]).n == 2
    same = (request(evaluation_id="e-1"), {"faithfulness": True})
    assert data_digest([same, two]) == data_digest([one, two]), "an id is not content"
    for other in ((request(), {"faithfulness": False}), (request(), {"entities": True}), (request(query="r"), one[1])):
        assert data_digest([other, two]).digest != data_digest([one, two]).digest
