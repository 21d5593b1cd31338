"""The library gliner as it loads and infers, on a model of random weights: places, windows, batches."""

import json
import random
import shutil

import pytest

from judges.extract_models import ModelEntities, apart
from judges.gliner_models import Gliner
from judges.port import JudgeError
from judges.window_model import ModelAsker, Piece, Question

pytestmark = pytest.mark.timeout(240)  # the first test loads torch

LABELS = ("location", "person")
SENTENCES = [
    "Josiah Pell built the Wend Viaduct between 1862 and 1864 for the Company.",
    "It stands 34 metres above the River and cost AT&T's owners £18,400!",
    "Żółw Ångström met Мария at Kestrel-Bay, e.g. on 3 May.",
    "Nobody else came.",
]
LONG = " ".join(SENTENCES * 6)


@pytest.fixture(scope="module")
def model(tiny_models):
    return Gliner.load(str(tiny_models / "gliner"), "cpu")


def piece(model, text, threshold=0.8, labels=LABELS):
    cost = model.prompt(labels) + sum(model.costs([text[start:end] for start, end in model.words(text)]))
    return Piece(text, labels, threshold, cost)


def rounded(hits):
    return sorted((start, end, label, round(score, 3)) for start, end, label, score in hits)


def test_the_model_says_what_it_is(model, tiny_models, tmp_path):
    assert model.made.model.startswith("gliner@sha256-")
    assert model.made.parameters["window"] == {"sub_tokens": 126, "words": 24, "overlap": "one sentence"}
    assert str(tiny_models) not in json.dumps(model.made._asdict())
    other = shutil.copytree(tiny_models / "gliner", tmp_path / "gliner")
    assert Gliner.load(str(other), "auto").made == model.made
    config = json.loads((other / "gliner_config.json").read_text())
    (other / "gliner_config.json").write_text(json.dumps(config | {"max_len": 12}))
    assert Gliner.load(str(other), "cpu").made != model.made


def test_words_and_sub_tokens_are_the_models_own(model):
    text = "Apple's AT&T 5.1"
    assert [text[start:end] for start, end in model.words(text)] == [
        *("Apple", "'", "s", "AT", "&", "T", "5", ".", "1")
    ]
    assert model.costs(["Apple", "'", "AT"]) == [5, 1, 2]
    assert model.prompt(("person",)) == 1 + 6 + 1
    encoded = model._model.data_processor.transformer_tokenizer([text.split()], is_split_into_words=True)
    assert sum(model.costs(text.split())) + 2 == len(encoded["input_ids"][0])


def test_it_finds_what_the_library_finds_one_by_one(model, tiny_models):
    from gliner import GLiNER

    library = GLiNER.from_pretrained(str(tiny_models / "gliner"), local_files_only=True)
    pieces = [piece(model, text) for text in SENTENCES]
    random.Random(1).shuffle(pieces)
    together = model.run(pieces)
    assert any(together)
    for each, hits in zip(pieces, together, strict=True):
        assert all(0 <= start < end <= len(each.text) for start, end, *_ in hits)
        found = library.predict_entities(each.text, list(LABELS), threshold=0.8, flat_ner=True, multi_label=True)
        alone = {(hit["start"], hit["end"], hit["label"]) for hit in found}
        chosen = {(*span, label) for span, labels in apart(hits) for label in labels}
        assert chosen == alone


def test_a_batch_of_different_labels_and_thresholds(model):
    pieces = [
        piece(model, SENTENCES[0], threshold, labels) for threshold in (0.3, 0.9) for labels in (LABELS, ("date",))
    ]
    assert [rounded(hits) for hits in model.run(pieces)] == [rounded(model.run([each])[0]) for each in pieces]


async def test_a_long_text_has_what_its_windows_have_at_its_own_places(model):
    # A warning of the library that it cut something would be an error here.
    asker = ModelAsker(model)
    [call] = await asker.ask([Question("entities", LONG, LABELS, "0.800000")])
    windows = json.loads(call.output)["windows"]
    assert len(windows) > 6
    for window in windows:
        start, end = window["span"]
        alone = model.run([piece(model, LONG[start:end])])[0]
        expected = sorted([s + start, e + start, label, round(score, 2)] for s, e, label, score in alone)
        assert window["found"] == expected
    [reading] = await ModelEntities(asker).entities([LONG], {"labels": LABELS, "threshold": "0.8"})
    assert all(LONG[entity.start : entity.end] == entity.text for entity in reading.entities)
    assert len({(entity.start, entity.end) for entity in reading.entities}) == len(reading.entities)
    await asker.close()


async def test_batch_and_order_change_nothing(model):
    texts = [" ".join(random.Random(n).sample(SENTENCES, 3)) for n in range(12)]
    questions = [Question("entities", text, LABELS, "0.800000") for text in texts]
    one, other = ModelAsker(model), ModelAsker(model)
    together = await one.ask(questions)
    apart = [(await other.ask([question]))[0] for question in reversed(questions)]
    assert together == apart[::-1]
    await one.close()
    await other.close()


async def test_out_of_memory_halves_the_batch(model, monkeypatch):
    import torch

    run, sizes = model.run, []

    def limited(pieces):
        sizes.append(len(pieces))
        if len(pieces) > 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return run(pieces)

    question = Question("entities", LONG, LABELS, "0.800000")
    whole = ModelAsker(model)
    expected = await whole.ask([question])
    monkeypatch.setattr(model, "run", limited)
    asker = ModelAsker(model)
    assert await asker.ask([question]) == expected
    assert max(sizes) > 3
    for each in (asker, whole):
        await each.close()


@pytest.mark.parametrize(
    ("label", "text"), [("zzgrx", SENTENCES[0]), ("person", ""), ("person", " \n"), ("person", "🙂 … !!")]
)
async def test_texts_and_labels_without_meaning(model, label, text):
    asker = ModelAsker(model)
    [reading] = await ModelEntities(asker).entities([text], {"labels": [label], "threshold": "1.000000"})
    assert reading.entities == []
    await asker.close()


def test_a_folder_that_holds_no_model_is_a_sentence(tmp_path):
    with pytest.raises(JudgeError, match="cannot be loaded as a model of gliner"):
        Gliner.load(str(tmp_path), "cpu")
    with pytest.raises(JudgeError, match="neither a folder nor a model"):
        Gliner.load("nobody/has-this-model@v1", "cpu")
