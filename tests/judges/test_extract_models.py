"""What is made of a model's findings, and how a model is asked: windows, batches, once for each question."""

import asyncio
import json
import re
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.request import JudgeInput
from judges.extract import Entity
from judges.extract_models import ModelEntities, ModelPairs, joined, ordered, recorded_extractor, structure_extractor
from judges.extract_rules import RuleEntities, RulePairs
from judges.port import Case, JudgeContext, JudgeError, Models
from judges.registry import make_judge
from judges.text import sentences
from judges.window_model import MENTIONS, ModelAsker, Question, Window, plan
from tests.judges.scripted import Scripted, scripted_extractor

LABELS = ("date", "organization", "person", "product", "quantity")


def hits(text, *found):
    return [(text.index(said), text.index(said) + len(said), label, score) for said, label, score in found]


def shown(entities):
    return [(entity.text, entity.kind, entity.types) for entity in entities]


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        (
            "Apple's gain of 5%.",
            [("Apple", "organization", 0.9)],
            [("Apple", "name", ("organization",)), ("5%", "percent", ())],
        ),
        (
            "Paris Hilton met Paris.",
            [("Paris Hilton", "person", 0.9), ("Paris", "organization", 0.8)],
            [("Paris Hilton", "name", ("person",))],
        ),
        (
            "Amazon grew.",
            [("Amazon", "product", 0.7), ("Amazon", "organization", 0.9)],
            [("Amazon", "name", ("organization", "product"))],
        ),
        ("The Boeing 747 flew.", [("Boeing 747", "product", 0.9)], [("Boeing 747", "name", ("product",))]),
        ("It fell by nearly 5 km.", [("nearly 5 km", "quantity", 0.9)], [("5 km", "quantity", ("quantity",))]),
        ("On 3 May 2024 it fell.", [("3 May 2024", "date", 0.9)], [("3 May 2024", "date", ("date",))]),
        (
            "He met them in US and IT.",
            [("He", "person", 0.9), ("US", "organization", 0.9)],
            [("US", "name", ("organization",))],
        ),
        ("Last Tuesday it fell.", [("Last Tuesday", "date", 0.9)], [("Last Tuesday", "name", ("date",))]),
        (
            "The 5 million dollars of Ann.",
            [("Ann", "person", 0.6)],
            [("5 million dollars", "money", ()), ("Ann", "name", ("person",))],
        ),
    ],
    ids=[
        "possessive",
        "overlap",
        "two types",
        "a name with a number",
        "a value with a word",
        "date",
        "pronoun",
        "no value",
        "money",
    ],
)
def test_joined(text, found, expected):
    assert shown(joined(text, hits(text, *found), LABELS)) == expected


def test_without_a_label_for_values_none_is_looked_for():
    assert joined("It cost €5 in 1999.", [], ("person",)) == []
    assert [entity.text for entity in joined("It cost €5 in 1999.", [], ("money", "person"))] == ["€5", "1999"]


spans = st.tuples(st.integers(0, 30), st.integers(1, 8), st.sampled_from(LABELS), st.sampled_from([0.5, 0.75, 0.9]))


@given(st.lists(spans, max_size=12), st.randoms())
def test_what_overlaps_is_settled_alike_in_any_order(found, chance):
    text = "Ab Cd Ef Gh Ij Kl Mn Op Qr St Uv Wx Yz"
    given_hits = [(start, start + length, label, score) for start, length, label, score in found]
    entities = joined(text, given_hits, ("person",))
    chance.shuffle(given_hits)
    assert joined(text, given_hits, ("person",)) == entities
    for one, other in pairwise(entities):
        assert one.end <= other.start
    assert all(text[entity.start : entity.end] == entity.text for entity in entities)


def people(*names):
    return [Entity(name, "name", 10 * n, 10 * n + len(name), (name.casefold(),)) for n, name in enumerate(names)]


def test_pairs_are_ordered_unique_and_of_different_entities():
    entities = people("Ann", "Bob", "Ann")
    found = [(0, 1, "knows", 0.6), (2, 1, "likes", 0.9), (1, 0, "knows", 0.7), (0, 2, "knows", 0.9)]
    pairs = ordered(entities, found, both_directions=True)
    assert [(p.one, p.other, p.predicate, p.score) for p in pairs] == [(1, 0, "knows", 0.7), (2, 1, "likes", 0.9)]
    [only] = ordered(entities, found, both_directions=False)
    assert (only.one, only.other, only.predicate) == (2, 1, "likes")


# --- asking ---------------------------------------------------------------------------------------------------

LONG = " ".join(f"Person{n} met Firm{n} again." for n in range(40))
FOUND = {f"Person{n}": {"person": 0.9} for n in range(40)} | {f"Firm{n}": {"organization": 0.8} for n in range(40)}


async def test_a_text_beyond_the_window_is_read_whole_in_windows_of_sentences():
    model = Scripted(FOUND, window=Window(30, 24))
    [reading] = await scripted_extractor(model).entities.entities([LONG], {"labels": LABELS})
    assert [e.text for e in reading.entities] == [f"{kind}{n}" for n in range(40) for kind in ("Person", "Firm")]
    assert all(LONG[e.start : e.end] == e.text for e in reading.entities)
    said = json.loads(reading.calls[0].output)
    bounds = {span.start for span in sentences(LONG)}, {span.end for span in sentences(LONG)}
    assert len(said["windows"]) > 8
    assert said["cut_sentences"] == said["cut_words"] == reading.cut == 0
    for window in said["windows"]:
        assert window["span"][0] in bounds[0]
        assert window["span"][1] in bounds[1]
    assert all(piece.cost <= 30 and len(model.words(piece.text)) <= 24 for ran in model.ran for piece in ran)


async def test_a_word_beyond_the_window_is_said_to_be_cut():
    model = Scripted(window=Window(8, 24))
    model.costs = lambda words: [20 if word == "endless" else 1 for word in words]
    [reading] = await scripted_extractor(model).entities.entities(["Ann saw endless things."], {"labels": ["person"]})
    assert reading.cut == 1


async def test_labels_that_fill_half_a_window_are_asked_about_in_groups():
    labels = tuple(f"label{n:02}" for n in range(9))
    model = Scripted({"Ann": dict.fromkeys(labels, 0.9)}, window=Window(8, 24))
    [reading] = await scripted_extractor(model).entities.entities(["Ann met Bob."], {"labels": labels})
    assert [entity.types for entity in reading.entities] == [labels]
    assert {piece.labels for ran in model.ran for piece in ran} == {labels[:4], labels[4:8], labels[8:]}


async def test_the_order_of_labels_and_their_repetition_change_nothing():
    model = Scripted({"Ann": {"person": 0.9}})
    extractor = scripted_extractor(model).entities
    one = {"labels": ["person", "date", "person"]}
    other = {"labels": ["date", "person"]}
    assert extractor.method(one) == extractor.method(other)
    assert await extractor.entities(["Ann came."], one) == await extractor.entities(["Ann came."], other)
    assert len(model.ran) == 1


@pytest.mark.parametrize(("threshold", "names"), [("0.500000", ["Ann", "Bob"]), (0.7, ["Ann"]), ("0.9", [])])
async def test_threshold(threshold, names):
    model = Scripted({"Ann": {"person": 0.9}, "Bob": {"person": 0.7}})
    settings = {"labels": ["person"], "threshold": threshold}
    [reading] = await scripted_extractor(model).entities.entities(["Ann met Bob."], settings)
    assert [entity.text for entity in reading.entities] == names


async def test_one_question_is_asked_once_by_all_who_ask_it():
    model = Scripted(FOUND)
    extractor = scripted_extractor(model).entities
    readings = await asyncio.gather(*(extractor.entities([LONG, f"Text {n}."], {}) for n in range(5)))
    assert len({id(reading[0].calls[0].output) for reading in readings}) == 1
    asked = sorted(piece.text for ran in model.ran for piece in ran)
    assert len(asked) == len(set(asked))
    assert len(model.ran) <= 2


async def test_who_gives_up_stops_nobody_else_and_leaves_nothing_running():
    model = Scripted(FOUND)
    asker = ModelAsker(model)
    question = Question("entities", LONG, LABELS, "0.500000")
    impatient, patient = (asyncio.create_task(asker.ask([question])) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    [call] = await patient
    assert json.loads(call.output)["windows"]
    alone = asyncio.create_task(asker.ask([Question("entities", "Ann.", LABELS, "0.500000")]))
    await asyncio.sleep(0)
    alone.cancel()
    await asyncio.gather(impatient, alone, return_exceptions=True)
    await asyncio.sleep(0.01)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    await asker.close()


async def test_a_batch_that_memory_does_not_hold_is_halved():
    model = Scripted(FOUND, window=Window(30, 24))
    run = model.run

    def small(pieces):
        if len(pieces) > 2:
            raise MemoryError
        return run(pieces)

    model.run = small
    [whole] = await scripted_extractor(Scripted(FOUND, window=Window(30, 24))).entities.entities([LONG], {})
    [reading] = await scripted_extractor(model).entities.entities([LONG], {})
    assert reading == whole


async def test_a_text_that_a_model_fails_on_harms_no_other():
    model = Scripted(FOUND)
    run = model.run

    def picky(pieces):
        if any("bad" in piece.text for piece in pieces):
            raise ValueError("bad")
        return run(pieces)

    model.run = picky
    extractor = scripted_extractor(model).entities
    bad, good = await asyncio.gather(
        extractor.entities(["A bad text."], {}), extractor.entities([LONG], {}), return_exceptions=True
    )
    assert isinstance(bad, JudgeError)
    assert len(good[0].entities) == 80


@pytest.mark.parametrize(("score", "asked"), [(0.500008, 2), (0.615008, 2), (0.6151, 1), (0.612, 1)])
async def test_a_score_that_its_company_may_turn_is_asked_for_alone(score, asked):
    """In company the model errs by less than its noise; what is said is what it says of the text alone."""

    class Noisy(Scripted):
        def run(self, pieces):
            moved = -9e-6 if len(pieces) > 1 else 0.0
            return [[(*hit[:3], hit[3] + moved) for hit in hits] for hits in super().run(pieces)]

    model = Noisy({"Ann": {"person": score}})
    settings = {"labels": ["person"], "threshold": "0.5"}
    texts = ["Ann came.", "Bo came."]
    together = await scripted_extractor(model).entities.entities(texts, settings)
    assert sum(piece.text == "Ann came." for ran in model.ran for piece in ran) == asked
    alone = await scripted_extractor(Noisy(model.entities)).entities.entities(texts[:1], settings)
    assert together[0] == alone[0]


# --- pairs ----------------------------------------------------------------------------------------------------


def mentioned(text, *names):
    return [Entity(name, "name", text.index(name), text.index(name) + len(name), (name.casefold(),)) for name in names]


@pytest.mark.parametrize("names", [(), ("Ann",), ("Ann", "Ann")])
async def test_less_than_two_entities_are_no_question(names):
    model = Scripted()
    [pairing] = await scripted_extractor(model).pairs.pairs([("Ann came.", mentioned("Ann came.", *names))], {}, 9)
    assert pairing.pairs == []
    assert pairing.calls == ()
    assert model.ran == []


async def test_sixty_entities_are_paired_in_windows_and_capped():
    names = [f"P{n:02}" for n in range(60)]
    text = " ".join(names) + "."
    found = {(one, other): {"knows": 0.9} for one in names for other in names if one != other}
    model = Scripted(relations=found, window=Window(200, 100))
    [pairing] = await scripted_extractor(model).pairs.pairs(
        [(text, mentioned(text, *names))], {"types": ["knows"]}, 201
    )
    assert len(pairing.pairs) == 201
    assert pairing.cut == 1
    assert max(len(piece.mentions) for ran in model.ran for piece in ran) == MENTIONS
    assert all(one < other or other < one for one, other, *_ in pairing.pairs)


async def test_pairs_are_found_across_sentences_of_neighbouring_windows():
    text = " ".join(f"Name{n} came home." for n in range(20))
    names = [f"Name{n}" for n in range(20)]
    found = {(f"Name{n}", f"Name{n + 1}"): {"follows": 0.9} for n in range(19)}
    model = Scripted(relations=found, window=Window(13, 50))
    [pairing] = await scripted_extractor(model).pairs.pairs(
        [(text, mentioned(text, *names))], {"types": ["follows"]}, 99
    )
    assert [(pair.one, pair.other) for pair in pairing.pairs] == [(n, n + 1) for n in range(19)]
    assert pairing.cut == 0


# --- what was said before -------------------------------------------------------------------------------------


async def test_what_was_recorded_is_read_without_the_model():
    model = Scripted(FOUND, {("Person1", "Firm1"): {"works for": 0.9}})
    made = scripted_extractor(model)
    settings = {"labels": list(LABELS), "threshold": "0.500000"}
    [reading] = await made.entities.entities([LONG], settings)
    [pairing] = await made.pairs.pairs([(LONG, reading.entities)], {}, 10)
    entities = made.entities.method(settings)
    methods = {"entities": entities, "relations": made.pairs.method({}, entities)}
    outputs = {call.input_digest: call.output for call in (*reading.calls, *pairing.calls)}

    again = recorded_extractor(methods, outputs)
    assert await again.entities.entities([LONG], settings) == [reading]
    assert await again.pairs.pairs([(LONG, reading.entities)], {}, 10) == [pairing]
    assert again.entities.method(settings) == entities
    assert again.pairs.method({}, entities) == methods["relations"]
    with pytest.raises(JudgeError, match="unavailable"):
        await again.entities.entities(["Another text."], settings)


def test_what_was_judged_by_rules_is_read_by_rules():
    rules = RuleEntities().method({})
    again = recorded_extractor({"entities": rules, "relations": RulePairs().method({}, rules)}, {})
    assert isinstance(again.entities, RuleEntities)
    assert isinstance(again.pairs, RulePairs)
    only = recorded_extractor(
        {"relations": RulePairs().method({}, ModelEntities(ModelAsker(Scripted())).method({}))}, {}
    )
    assert isinstance(only.entities, ModelEntities)
    assert not isinstance(only.pairs, ModelPairs)


@given(st.text(max_size=300))
def test_the_windows_of_any_text_slice_it(text):
    model = Scripted(window=Window(9, 7))
    planned = plan(model, Question("entities", text, ("person",), "0.500000"))
    for piece, (start, end) in zip(planned.pieces, planned.spans, strict=True):
        assert piece.text == text[start:end]
    read = {n for start, end in planned.spans for n in range(start, end)}
    assert read >= {n for start, end in model.words(text) for n in range(start, end)}


# --- wiring ---------------------------------------------------------------------------------------------------


@pytest.mark.timeout(240)
async def test_the_settings_choose_rules_or_models_for_either_half(tiny_models):
    def made(**models):
        judge = make_judge("structure", JudgeContext(models=Models(device="cpu", **models)))
        methods = judge._methods(Case("id", JudgeInput(), {}, 0.0))
        return judge, [methods[part].family for part in ("entities", "relations")]

    folders = {"entity": str(tiny_models / "gliner"), "relation": str(tiny_models / "glirel")}
    for chosen, families in [
        ((), ["rules", "rules"]),
        (("entity",), ["gliner", "rules"]),
        (("relation",), ["rules", "glirel"]),
        (("entity", "relation"), ["gliner", "glirel"]),
    ]:
        judge, found = made(**{name: folders[name] for name in chosen})
        assert found == families
        await judge.close()


@pytest.mark.parametrize("library", ["gliner", "glirel"])
def test_a_library_that_is_missing_is_named_with_the_extra(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(JudgeError, match=re.escape("pip install 'glassbox[models]'")) as caught:
        structure_extractor(*(("m", None) if library == "gliner" else (None, "m")))
    assert caught.value.cause == "model_missing"
    assert library in caught.value.detail
