"""The library glirel as it loads and infers, on a model of random weights: each of its traps, places, windows."""

import json
import random

import pytest

from judges.extract_models import ModelPairs
from judges.extract_rules import find_entities
from judges.glirel_models import Glirel
from judges.window_model import ModelAsker, Piece, Question
from tests.judges.tiny_models import glirel

pytestmark = pytest.mark.timeout(240)  # the first test loads torch

TYPES = ("born in", "made by")
TEXT = "Josiah Pell built the Wend Viaduct between 1862 and 1864 for £18,400 at Kestrel-Bay."
NAMES = ("Josiah Pell", "Wend Viaduct", "1862", "1864", "£18,400", "Kestrel-Bay")


@pytest.fixture(scope="module")
def model(tiny_models):
    return Glirel.load(str(tiny_models / "glirel"), "cpu")


def piece(text=TEXT, names=NAMES, threshold=0.5, types=TYPES):
    mentions = tuple((text.index(name), text.index(name) + len(name), "thing") for name in names)
    return Piece(text, types, threshold, 50, mentions)


def rounded(hits):
    return sorted((head, tail, label, round(score, 3)) for head, tail, label, score in hits)


def test_it_finds_what_the_library_finds_one_by_one(model):
    words = [TEXT[start:end] for start, end in model.words(TEXT)]
    ner = [
        [0, 1, "thing", "Josiah Pell"],
        [4, 5, "thing", "Wend Viaduct"],
        [7, 7, "thing", "1862"],
        [9, 9, "thing", "1864"],
    ]
    alone = model._model.predict_relations(words, list(TYPES), threshold=0.5, ner=ner, top_k=-1)
    place = {(0, 2): 0, (4, 6): 1, (7, 8): 2, (9, 10): 3}
    expected = [(place[tuple(h["head_pos"])], place[tuple(h["tail_pos"])], h["label"], h["score"]) for h in alone]
    [hits] = model.run([piece(names=NAMES[:4])])
    assert hits
    assert rounded(hits) == rounded(expected)


def test_pairs_are_ordered_each_with_its_predicates(model):
    [hits] = model.run([piece(threshold=0.0)])
    every = [(a, b, each) for a in range(6) for b in range(6) for each in TYPES if a != b]
    assert sorted((head, tail, label) for head, tail, label, _ in hits) == every


def test_a_batch_of_texts_with_few_and_many_entities(model):
    pieces = [piece(names=NAMES[:count]) for count in (6, 2, 1, 0, 4)] + [piece(types=("part of",)), piece(threshold=0)]
    together = model.run(pieces)
    assert [rounded(hits) for hits in together] == [rounded(model.run([each])[0]) for each in pieces]
    assert together[2] == together[3] == []


def test_mentions_in_one_word_are_one_to_the_model(model):
    text = "Kestrel-Bay met Ann."
    made = Piece(text, TYPES, 0.0, 20, ((0, 7, "a"), (8, 11, "b"), (16, 19, "c")))
    [hits] = model.run([made])
    assert {(head, tail) for head, tail, *_ in hits} == {(0, 2), (1, 2), (2, 0), (2, 1)}
    assert model.run([Piece(text, TYPES, 0.0, 20, ((0, 7, "a"), (8, 11, "b")))]) == [[]]


def test_entity_markers_are_put_in_where_the_model_wants_them(tiny_models, tmp_path):
    folder = glirel(tmp_path / "marked", tiny_models / "backbone", words=96, add_entity_markers=True)
    model = Glirel.load(str(folder), "cpu")
    assert model.window == (126 - 64, 96 - 64)
    [hits] = model.run([piece(threshold=0.0)])
    assert len(hits) == 60


async def test_sixty_entities_and_a_text_over_the_window(model):
    names = [f"{first}nn {last}ee" for first in "ABCDEF" for last in "KLMNOPQRST"]
    text = ", ".join(names) + ". " + TEXT * 3
    entities = [entity for entity in find_entities([text])[0] if entity.kind == "name"]
    asker = ModelAsker(model)
    [pairing] = await ModelPairs(asker).pairs([(text, entities)], {"types": TYPES, "threshold": "0.5"}, 201)
    assert len(pairing.pairs) == 201
    assert pairing.cut > 0
    assert all(text[pair.span.start : pair.span.end].strip() for pair in pairing.pairs)
    await asker.close()


async def test_batch_and_order_change_nothing(model):
    texts = [" ".join(random.Random(n).sample(TEXT.split(), 9)) for n in range(10)]
    questions = []
    for text in texts:
        mentions = tuple((m.start, m.end, m.kind) for m in find_entities([text])[0])
        questions.append(Question("relations", text, TYPES, "0.950000", mentions))
    one, other = ModelAsker(model), ModelAsker(model)
    together = await one.ask(questions)
    apart = [(await other.ask([question]))[0] for question in reversed(questions)]
    assert together == apart[::-1]
    assert any(window["found"] for call in together for window in json.loads(call.output)["windows"])
    await one.close()
    await other.close()
