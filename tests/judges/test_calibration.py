"""Calibration: rank agreement of retriever scores with similarity, and entity hits."""

import json
import math
import time
from decimal import Decimal
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.request import JudgeInput, Passage
from glassbox.contract.verdict import Failed, NotApplicable, Scored
from judges.calibration import CalibrationJudge, cosines, distribution, kendall_tau_b, orders
from judges.embedders import Embedded, EndpointEmbedder
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from judges.lexical.server import LexicalServer
from judges.llm import Endpoint, EndpointClient
from judges.port import Case, JudgeError

TEXTS = ["zero", "one", "two", "three", "four", "five"]


class Rows:
    """An embedder that gives the query the first axis and each text the angle that a test asks for."""

    family = "lexical"
    model = "rows-1"

    def __init__(self, *degrees, vectors=None, error=None, unread=()):
        self.degrees, self.vectors, self.error, self.unread = degrees, vectors, error, frozenset(unread)
        self.parameters = {"rows": "angles"}
        self.asked = []
        self.closed = False

    async def embed(self, query, passages, case):
        self.asked.append([query, *passages])
        if self.error:
            raise self.error
        vectors = self.vectors
        if vectors is None:
            angles = [0, *self.degrees][: 1 + len(passages)]
            vectors = [[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in angles]
        rows = np.array(vectors, dtype=np.float32)
        return Embedded(rows, "rows-served-1", ({"call": 1},), (b"raw",), self.unread)

    async def close(self):
        self.closed = True


async def judged(embedder, texts=TEXTS, scores=None, entities=None, settings=None):
    case = JudgeInput(
        query="Which?",
        retrieved_passages=[Passage(id=f"p{n}", text=text) for n, text in enumerate(texts)],
        chunk_scores=scores,
        retrieved_entities=entities,
    )
    judge = CalibrationJudge(embedder)
    judgement = await judge.judge(Case("id", case, {"similarity_calibration": settings or {}}, time.monotonic() + 60))
    await judge.close()
    assert embedder.closed
    json.dumps(judgement.evidence, allow_nan=False)
    [verdict] = judgement.verdicts
    assert verdict.part == "similarity_calibration"
    assert verdict.method.family == "lexical"
    assert verdict.method.parameters["embedder"] == {"rows": "angles"}
    return verdict, judgement


RISING = [80, 60, 40, 30, 20, 10]  # degrees: the last passage is the most similar


async def test_equal_orders_score_one_and_inverted_ones_zero():
    verdict, judgement = await judged(Rows(*RISING), scores=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert verdict.score == 1
    assert verdict.method.model == "rows-served-1"
    assert judgement.raw == (b"raw",)
    assert judgement.evidence["rank_agreement"]["tau_b"] == 1.0
    verdict, _ = await judged(Rows(*RISING), scores=[6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    assert verdict.score == 0


async def test_scores_may_be_distances():
    distances = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    verdict, _ = await judged(Rows(*RISING), scores=distances, settings={"higher_is_better": False})
    other, _ = await judged(Rows(*RISING), scores=distances)
    assert (verdict.score, other.score) == (1, 0)
    assert verdict.method.digest() != other.method.digest()


@pytest.mark.parametrize("scale", [[-172.0, -171.5, -9.0, 0.0, 3.0, 1.7e9], [1e-300, 2e-300, 3e-300, 0.5, 1.0, 1e308]])
async def test_any_scale_serves(scale):
    verdict, _ = await judged(Rows(*RISING), scores=scale)
    assert verdict.score == 1


@pytest.mark.parametrize(
    ("texts", "scores", "cause"),
    [
        ([], None, "no_passages"),
        (["", " … ", "\u200b"], [1.0, 2.0, 3.0], "no_passages"),
        (TEXTS, None, "no_scores"),
        (TEXTS[:4], [1.0, 2.0, 3.0, 4.0], "too_few"),
        (["one"], [1.0], "too_few"),
        (["One", "one", "ONE!", "one.", "two", "three"], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "too_few"),
        (TEXTS, [0.5] * 6, "constant"),
    ],
)
async def test_what_cannot_be_told_is_not_applicable(texts, scores, cause):
    verdict, _ = await judged(Rows(*RISING), texts=texts, scores=scores)
    assert isinstance(verdict, NotApplicable)
    assert verdict.cause == cause


async def test_similarities_that_differ_in_the_fifth_place_are_ties():
    verdict, _ = await judged(Rows(*[0.01 * n for n in range(6)]), scores=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert verdict.cause == "constant"


async def test_no_call_is_made_for_blank_passages_and_repeated_ones_count_once():
    embedder = Rows(*RISING)
    await judged(embedder, texts=["", " "])
    assert embedder.asked == []
    _, judgement = await judged(embedder, texts=["one", "", "ONE", "two"], scores=[1.0, 2.0, 3.0, 4.0])
    assert embedder.asked == [["Which?", "one", "two"]]
    assert judgement.evidence["left_out"] == {"blank": [1], "repeated": [2]}
    assert [(row["passage"], row["score"]) for row in judgement.evidence["passages"]] == [("p0", 3.0), ("p3", 4.0)]
    _, judgement = await judged(
        embedder, texts=["one", "ONE", "two"], scores=[3.0, 1.0, 4.0], settings={"higher_is_better": False}
    )
    assert [row["score"] for row in judgement.evidence["passages"]] == [1.0, 4.0]


async def test_entities_are_found_case_folded_on_word_bounds():
    texts = ["The harbour FERRY crosses to Gull Point.", "Annabel's Café\u0301 is near AT&T. 我喜欢吃苹果"]
    entities = ["Harbour ferry", "gull point", "Ann", "annabel", "AT&T", "吃苹果", "", "GULL POINT", "absent", "…"]
    entities += ["The Harbour Ferry’s", "Mr. Annabel"]
    verdict, judgement = await judged(Rows(1, 2), texts=texts, entities=entities)
    hits = {row["entity"]: row["passages"] for row in judgement.evidence["entity_hits"]["entities"]}
    assert hits == {
        "Harbour ferry": ["p0"],
        "gull point": ["p0"],
        "Ann": [],
        "annabel": ["p1"],
        "AT&T": ["p1"],
        "吃苹果": ["p1"],
        "absent": [],
    }
    assert verdict.score == round(Decimal(5) / 7, 6)


async def test_what_the_model_cannot_read_has_no_similarity():
    scores = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    verdict, judgement = await judged(Rows(*RISING, unread=[1]), scores=scores)
    assert verdict.score == 1
    assert [row["similarity"] is None for row in judgement.evidence["passages"]] == [True] + [False] * 5
    assert judgement.evidence["similarity"]["count"] == 5
    assert judgement.evidence["rank_agreement"]["passages"] == 5
    verdict, judgement = await judged(Rows(*RISING, unread=[1, 2]), scores=scores)
    assert (verdict.state, verdict.cause) == ("not_applicable", "other_script")
    verdict, judgement = await judged(Rows(*RISING, unread=[0]), scores=scores, entities=["zero", "nowhere"])
    assert judgement.evidence["rank_agreement"]["cause"] == "other_script"
    assert judgement.evidence["similarity"] is None
    assert verdict.score == Decimal("0.5")


async def test_score_is_the_mean_of_the_halves_that_apply():
    scores = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    verdict, judgement = await judged(Rows(*RISING), scores=scores, entities=["zero", "nowhere"])
    assert verdict.score == Decimal("0.25")
    assert judgement.evidence["rank_agreement"]["score"] == 0
    assert judgement.evidence["entity_hits"]["score"] == 0.5
    verdict, judgement = await judged(Rows(*RISING), entities=["zero"])
    assert verdict.score == 1
    assert judgement.evidence["rank_agreement"]["cause"] == "no_scores"


@pytest.mark.parametrize("bad", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
async def test_an_embedding_without_direction_fails(bad):
    verdict, judgement = await judged(Rows(vectors=[[1.0, 0.0], [0.0, 1.0], bad]), texts=["one", "two"])
    assert isinstance(verdict, Failed)
    assert verdict.cause == "bad_embedding"
    assert "similarity" not in judgement.evidence


async def test_missing_vectors_and_errors_of_the_endpoint_fail():
    verdict, _ = await judged(Rows(vectors=[[1.0, 0.0], [0.0, 1.0]]), texts=["one", "two"])
    assert verdict.cause == "count_mismatch"
    verdict, _ = await judged(Rows(error=JudgeError("rate_limited", "HTTP 429")), texts=["one", "two"])
    assert (verdict.cause, verdict.detail) == ("rate_limited", "HTTP 429")


async def test_evidence_has_the_distribution_and_every_passage():
    _, judgement = await judged(Rows(*RISING))
    assert judgement.evidence["similarity"]["count"] == 6
    assert judgement.evidence["similarity"]["max"] == round(math.cos(math.radians(10)), 6)
    assert [row["similarity"] for row in judgement.evidence["passages"]] == pytest.approx(
        [math.cos(math.radians(angle)) for angle in RISING], abs=1e-6
    )


async def test_only_an_enabled_part_is_answered():
    judge = CalibrationJudge(Rows())
    assert (await judge.judge(Case("id", JudgeInput(query="q"), {}, time.monotonic() + 1))).verdicts == ()


async def test_the_offline_model_prefers_the_passage_about_the_query():
    texts = [
        "The museum is open daily.",
        "Slate came down by a cable incline.",
        "The viaduct has nine arches.",
        "Josiah Pell built the viaduct.",
        "Tickets are sold at machines.",
    ]
    case = JudgeInput(
        query="Who built the viaduct?",
        retrieved_passages=[Passage(text=text) for text in texts],
        chunk_scores=[0.1, 0.05, 0.7, 0.9, 0.2],
    )
    async with LexicalServer() as server:
        client = EndpointClient(
            Endpoint(base_url=server.url, model=CHAT_MODEL, embedding_model=EMBEDDING_MODEL, api_key="none")
        )
        judge = CalibrationJudge(EndpointEmbedder(client))
        judgement = await judge.judge(Case("id", case, {"similarity_calibration": {}}, time.monotonic() + 30))
        await client.close()
        assert server.embedding_calls == 1
    [verdict] = judgement.verdicts
    assert isinstance(verdict, Scored)
    assert verdict.score > Decimal("0.8")
    assert (verdict.method.family, verdict.method.model) == ("lexical", EMBEDDING_MODEL)
    assert len(judgement.raw) == len(judgement.evidence["calls"]) == 1


def _tau_by_definition(x, y):
    score = ties_x = ties_y = 0
    for (a, b), (c, d) in combinations(zip(x, y, strict=True), 2):
        score += ((a > c) - (a < c)) * ((b > d) - (b < d))
        ties_x += a == c
        ties_y += b == d
    pairs = math.comb(len(x), 2)
    if pairs in (ties_x, ties_y):
        return None
    return score / math.sqrt((pairs - ties_x) * (pairs - ties_y))


rankings = st.integers(0, 25).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-3, 3) | st.floats(-1, 1), min_size=n, max_size=n)] * 2)
)


@given(rankings)
def test_tau_is_that_of_the_definition_and_symmetric(ranking):
    x, y = ranking
    tau = kendall_tau_b(x, y)
    expected = _tau_by_definition(x, y)
    assert tau == (None if expected is None else pytest.approx(expected))
    assert kendall_tau_b(y, x) == tau
    if tau is not None:
        assert -1 <= tau <= 1
        assert kendall_tau_b(x, [-value for value in y]) == -tau
        assert kendall_tau_b(x, x) == 1.0


@given(st.lists(st.integers(-3, 3), max_size=7))
def test_orders_are_counted_by_the_definition(values):
    assert orders(values) == len(set(permutations(values)))


@pytest.fixture(scope="module")
def scipy_stats():
    return pytest.importorskip("scipy.stats")


@given(rankings)
def test_tau_agrees_with_scipy(scipy_stats, ranking):
    x, y = ranking
    tau = kendall_tau_b(x, y)
    if tau is not None:
        assert tau == pytest.approx(scipy_stats.kendalltau(x, y, variant="b").statistic)


def test_a_thousand_passages_are_ranked_at_once():
    assert kendall_tau_b([n % 500 for n in range(1000)], [(n * 7) % 1000 for n in range(1000)]) is not None


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3).filter(any), min_size=2, max_size=6))
def test_cosines_lie_between_minus_one_and_one(rows):
    vectors = np.array(rows, dtype=np.float32)
    assert all(-1 <= value <= 1 for value in cosines(vectors))
    assert cosines(np.array([rows[0], rows[0]], dtype=np.float32)) == pytest.approx([1.0])


def test_distribution_of_one_value_and_of_none():
    assert distribution([]) is None
    assert distribution([0.5]) == {
        **dict.fromkeys(("mean", "min", "q1", "median", "q3", "max"), 0.5), "count": 1, "stdev": None,
    }  # fmt: skip
