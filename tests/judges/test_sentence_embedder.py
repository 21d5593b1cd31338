"""Local embeddings: windows, pooling, independence of the batch, what is kept, what a model cannot read, failures."""

import asyncio
import json
import random
import threading
import time
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbox.contract.request import JudgeInput, Passage
from judges.calibration import CalibrationJudge
from judges.embedders import RecordedEmbedder
from judges.port import Case, JudgeContext, JudgeError, Models
from judges.registry import make_judge
from judges.sentence_embedder import SentenceEmbedder, split
from tests.judges.tiny_sentence_model import WINDOW, make

pytestmark = [
    pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="the extra `models` is not installed"),
    pytest.mark.timeout(180),  # the first test imports torch
]

QUERY = "which ferry crosses the harbour?"
PASSAGES = [
    "The ferry crosses the harbour in nine minutes.",
    "A bridge of stone.",
    "Москва",
    "Tickets are sold at machines on both sides, and in the office of the harbour.",
    "A bridge of stone!",
]
LONG = " ".join(f"The ferry {n} left the harbour {n * 7 % 10} at {n % 24} sharp." for n in range(30))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("sentence"))


@pytest.fixture(scope="module")
def prompted(tmp_path_factory):
    return make(tmp_path_factory.mktemp("prompted"), {"query": "query: ", "passage": "passage: "})


@pytest.fixture
async def embedder(folder):
    made = SentenceEmbedder(str(folder))
    yield made
    await made.close()


def case(seconds=60.0):
    return Case("id", JudgeInput(), {}, time.monotonic() + seconds)


class Encoding:
    """Stands between an embedder and its model, and counts the texts that the model is given; `fail(texts)` may
    raise, `change(texts, vectors)` changes what the model says."""

    def __init__(self, embedder, fail=lambda texts: None, change=lambda texts, vectors: vectors):
        self.texts, self.fail, self.change = [], fail, change
        for name in ("encode_query", "encode_document"):
            setattr(embedder._model, name, self.between(getattr(embedder._model, name)))

    def between(self, encode):
        def encoded(texts, **settings):
            self.texts.append(list(texts))
            self.fail(texts)
            return self.change(texts, encode(texts, **settings))

        return encoded

    def distinct(self):
        return {text for texts in self.texts for text in texts}


async def test_vectors_are_those_of_the_library(embedder):
    embedded = await embedder.embed(QUERY, PASSAGES, case())
    expected = embedder._model.encode([QUERY, *PASSAGES], normalize_embeddings=True)
    assert embedded.vectors == pytest.approx(expected, abs=1e-6)
    assert embedded.vectors.dtype == np.float32
    assert np.linalg.norm(embedded.vectors, axis=1) == pytest.approx(np.ones(6), abs=1e-6)
    assert embedded.model == embedder.model
    assert embedder.model.startswith("tiny@sha256-")
    assert embedder.parameters["window"] == WINDOW
    assert embedder.parameters["precision"] == "float32"


async def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(folder):
    rng = random.Random(5)
    texts = [" ".join(rng.choices(LONG.split(), k=rng.choice([1, 3, 9, 20, 70]))) for _ in range(40)]
    alone, crowd, shuffled = {}, {}, {}
    one = SentenceEmbedder(str(folder))
    for text in texts:
        alone[text] = (await one.embed(QUERY, [text], case())).vectors
    many = SentenceEmbedder(str(folder))
    made = await asyncio.gather(*(many.embed(QUERY, texts[n : n + 5], case()) for n in range(0, 40, 5)))
    for n, embedded in enumerate(made):
        crowd |= {text: embedded.vectors[[0, 1 + at]] for at, text in enumerate(texts[5 * n : 5 * n + 5])}
    other = SentenceEmbedder(str(folder))
    order = rng.sample(texts, len(texts))
    embedded = await other.embed(QUERY, order, case())
    shuffled = {text: embedded.vectors[[0, 1 + at]] for at, text in enumerate(order)}
    for text in texts:
        assert alone[text].tobytes() == crowd[text].tobytes() == shuffled[text].tobytes()
    for made in (one, many, other):
        await made.close()


async def test_each_text_is_embedded_once_and_not_kept(embedder):
    encoding = Encoding(embedder)
    crowd = await asyncio.gather(*(embedder.embed(QUERY, PASSAGES, case()) for _ in range(8)))
    given = len(encoding.texts)
    assert encoding.distinct() == {QUERY, *PASSAGES}
    again = await embedder.embed(QUERY, PASSAGES[::-1], case())
    assert len(encoding.texts) == given
    assert {embedded.raw[0] for embedded in crowd} == {crowd[0].raw[0]}
    assert again.vectors[1:].tobytes() == crowd[0].vectors[:0:-1].tobytes()
    assert all(type(key) is bytes and len(key) == 32 for key in embedder._kept)


async def test_what_is_kept_is_bounded(embedder, monkeypatch):
    monkeypatch.setattr("judges.sentence_embedder._KEPT_BYTES", 32 * 4 * 3)
    for passage in PASSAGES:
        await embedder.embed(QUERY, [passage], case())
    assert len(embedder._kept) == 3
    encoding = Encoding(embedder)
    await embedder.embed(QUERY, PASSAGES[-1:], case())
    assert encoding.texts == []


async def test_a_long_text_is_read_to_its_end(embedder):
    changed = LONG.removesuffix("sharp.") + "once."
    embedded = await embedder.embed(QUERY, [LONG, changed, LONG], case())
    windows = embedded.calls[0]["windows"]
    assert windows[0] == 1
    assert windows[1] > 5
    assert embedded.vectors[1].tobytes() == embedded.vectors[3].tobytes()
    assert embedded.vectors[1].tobytes() != embedded.vectors[2].tobytes()
    parts = embedder._text("document", LONG).windows
    assert " ".join(part.text for part in parts) == LONG
    assert all(part.text.endswith("sharp.") for part in parts)
    tokenizer = embedder._model.tokenizer
    counts = [len(tokenizer(part.text)["input_ids"]) for part in parts]
    assert max(counts) <= WINDOW
    assert [part.tokens + 2 for part in parts] == counts
    vectors = embedder._model.encode([part.text for part in parts], normalize_embeddings=True)
    pooled = np.average(vectors, axis=0, weights=[part.tokens for part in parts])
    assert embedded.vectors[1] == pytest.approx(pooled / np.linalg.norm(pooled), abs=1e-6)


@pytest.mark.parametrize(
    "text",
    ["word " * 10_000, "x" * 90 + " " + "harbour" * 2_000, "a-b_c;" * 3_000, "é\u0301ß " * 500, "\n\t ferry " * 99],
)
async def test_no_window_is_longer_than_the_model_reads(embedder, text):
    read = embedder._text("document", text)
    assert all(0 < part.tokens + 2 <= part.length <= WINDOW for part in read.windows)
    assert "".join("".join(part.text for part in read.windows).split()) == "".join(text.split())
    if not read.unread:
        await embedder.embed(QUERY, [text], case())


@given(st.text(alphabet="ab .!?\n中", max_size=200), st.integers(1, 12), st.integers(1, 4))
def test_a_split_keeps_every_word_and_its_room(text, room, width):
    offsets = [n for n in range(0, len(text), width) if not text[n].isspace()]
    text = text[offsets[0] :] if offsets else ""
    offsets = [n - offsets[0] for n in offsets]
    parts = split(text, offsets, room)
    assert "".join("".join(parts).split()) == "".join(text.split())
    position = 0
    for part in parts:
        start = text.index(part, position)
        position = start + len(part)
        assert sum(start <= at < position for at in offsets) <= room


def test_a_split_prefers_sentences_then_words():
    def parts(text, room):
        return split(text, [n for n, character in enumerate(text) if not character.isspace()], room)

    assert parts("One. Two. Three.", 10) == ["One. Two.", "Three."]
    assert parts("one two three", 7) == ["one two", "three"]
    assert parts("onetwothree", 4) == ["onet", "woth", "ree"]
    assert parts("One two. Three four five.", 9) == ["One two.", "Three four", "five."]


async def test_a_text_of_unknown_characters_is_reported_and_not_compared(embedder):
    texts = ["漢字 漢字", "ferry 漢字 漢 字 漢", "ferry harbour 漢字", "ภาษา"]
    embedded = await embedder.embed(QUERY, texts, case())
    assert embedded.unread == {1, 2, 4}
    assert embedded.calls[0]["unread"] == [1, 2, 4]
    assert not embedded.vectors[[1, 2, 4]].any()
    assert embedded.vectors[3].any()
    assert (await embedder.embed("漢字", ["ภาษา"], case())).vectors.shape == (2, 32)


async def test_prompts_of_the_model_are_put_before_texts(prompted):
    embedder = SentenceEmbedder(str(prompted))
    embedded = await embedder.embed(QUERY, [*PASSAGES, QUERY, LONG], case())
    model = embedder._model
    assert embedded.vectors[0] == pytest.approx(model.encode_query(QUERY, normalize_embeddings=True), abs=1e-6)
    passages = model.encode([*PASSAGES, QUERY], prompt_name="passage", normalize_embeddings=True)
    assert embedded.vectors[1:-1] == pytest.approx(passages, abs=1e-6)
    assert embedded.vectors[0].tobytes() != embedded.vectors[-2].tobytes()
    parts = embedder._text("document", LONG).windows
    counts = [len(model.tokenizer("passage: " + part.text)["input_ids"]) for part in parts]
    assert max(counts) <= WINDOW
    assert set(embedder.parameters["prompts"]) == {"query", "document"}
    await embedder.close()


async def test_a_vector_that_means_nothing_harms_its_own_evaluation_only(embedder):
    def broken(texts, vectors):
        for n, text in enumerate(texts):
            if "stone" in text:
                vectors[n] = np.nan if "!" in text else 0.0
        return vectors

    Encoding(embedder, change=broken)
    asked = [embedder.embed(QUERY, [passage], case()) for passage in PASSAGES]
    made = await asyncio.gather(*asked, return_exceptions=True)
    assert [getattr(one, "cause", None) for one in made] == [None, "bad_embedding", None, None, "bad_embedding"]


async def test_out_of_memory_halves_the_batch(embedder, folder):
    import torch

    def full(texts):
        if len(texts) > 1:
            raise torch.cuda.OutOfMemoryError("injected")

    whole = await embedder.embed(QUERY, [*PASSAGES, LONG], case())
    other = SentenceEmbedder(str(folder))
    Encoding(other, fail=full)
    small = await other.embed(QUERY, [*PASSAGES, LONG], case())
    assert small.vectors == pytest.approx(whole.vectors, abs=1e-6)
    assert other._batcher.budget < embedder._batcher.budget
    Encoding(other, fail=lambda texts: full(texts * 2))
    with pytest.raises(JudgeError, match="out of memory"):
        await other.embed(QUERY, ["another text"], case())
    await other.close()


async def test_a_cancelled_call_leaves_nothing_behind(embedder, no_thread_left):
    go = threading.Event()
    encoding = Encoding(embedder, fail=lambda texts: go.wait(30))
    first = asyncio.create_task(embedder.embed(QUERY, PASSAGES[:1], case()))
    second = asyncio.create_task(embedder.embed(QUERY, [LONG], case()))
    other = asyncio.create_task(embedder.embed(QUERY, PASSAGES[1:2], case()))
    while not encoding.texts:
        await asyncio.sleep(0.01)
    second.cancel()
    first.cancel()
    await asyncio.wait([first, second])
    go.set()
    assert (await other).vectors.shape == (2, 32)
    await embedder.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert no_thread_left()


def calibration_case(scores):
    given = JudgeInput(
        query=QUERY, retrieved_passages=[Passage(text=text) for text in [*PASSAGES, LONG, "漢字"]], chunk_scores=scores
    )
    return Case("id", given, {"similarity_calibration": {}}, time.monotonic() + 60)


async def test_the_judge_gives_the_same_verdict_from_what_was_kept(embedder):
    given = calibration_case([0.1, 0.5, 0.2, 0.9, 0.6, 0.3, 0.0])
    judgement = await CalibrationJudge(embedder).judge(given)
    [verdict] = judgement.verdicts
    assert verdict.state == "scored"
    assert verdict.method.family == "embedding"
    assert verdict.method.model == embedder.model
    assert judgement.evidence["passages"][-1]["similarity"] is None
    [call] = judgement.evidence["calls"]
    method = json.loads(verdict.method.model_dump_json())
    recorded = RecordedEmbedder(method, [call], {call["output_digest"]: judgement.raw[0]})
    again = await CalibrationJudge(recorded).judge(given)
    assert again.verdicts == judgement.verdicts
    assert again.evidence == judgement.evidence
    assert again.raw == judgement.raw
    lost = await CalibrationJudge(RecordedEmbedder(method, [call], {})).judge(given)
    assert lost.verdicts[0].cause == "unavailable"
    with pytest.raises(JudgeError, match="no such call"):
        await recorded.embed("another query", PASSAGES, given)


async def test_the_calibration_judge_is_made_of_the_model_of_the_settings(folder):
    judge = make_judge("calibration", JudgeContext(models=Models(sentence=str(folder), device="cpu")))
    [verdict] = (await judge.judge(calibration_case(None))).verdicts
    assert (verdict.cause, verdict.method.model.partition("@")[0]) == ("no_scores", "tiny")
    await judge.close()


def test_what_cannot_be_loaded_is_a_sentence(tmp_path, folder):
    for name in ("no-such/model", "no-such-model@0123abc", str(tmp_path)):
        with pytest.raises(JudgeError, match="cannot be loaded as a model of sentence-transformers") as raised:
            SentenceEmbedder(name)
        assert raised.value.cause == "model_missing"
    with pytest.raises(JudgeError, match="there is no folder"):
        SentenceEmbedder(str(tmp_path / "gone"))
    with pytest.raises(JudgeError, match="there is no device 'tpu'"):
        SentenceEmbedder(str(folder), "tpu")


def test_a_missing_library_is_a_sentence(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(JudgeError, match=r"glassbox\[models\]"):
        SentenceEmbedder(str(folder))


@settings(max_examples=10)
@given(st.lists(st.text(alphabet="ab ferry harbour.é漢\n", max_size=300), min_size=1, max_size=4))
def test_any_text_is_embedded_or_reported(folder, texts):
    async def embedded():
        made = SentenceEmbedder(str(folder))
        try:
            return await made.embed(QUERY, texts, case())
        finally:
            await made.close()

    result = asyncio.run(embedded())
    for n, row in enumerate(result.vectors):
        assert np.linalg.norm(row) == pytest.approx(0.0 if n in result.unread else 1.0, abs=1e-5)
