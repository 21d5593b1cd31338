"""Terminology against rouge-score and sacrebleu, used as their READMEs show, for the figures that GlassBox reports."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from glassbox.contract.request import JudgeInput, Passage
from judges.terminology import ORDERS, judge_wording

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

ROUNDS = 8


def _text(chance: random.Random, words: int) -> str:
    """Sentences of 15 words, each as frequent as its rank: about what a word costs in a text that somebody wrote."""
    vocabulary = [f"word{rank}" for rank in range(4000)]
    weights = [1 / (rank + 1) for rank in range(4000)]
    return " ".join(" ".join(chance.choices(vocabulary, weights, k=15)) + "." for _ in range(words // 15))


def test_terminology_against_the_libraries_it_agrees_with() -> None:
    """Both sides make the same figures: BLEU-1 to BLEU-4, ROUGE-1, ROUGE-2 and ROUGE-L of the answer against every
    source and against its aligned reference. Finding that reference, the sentences, the language check and the evidence
    are in our time and not in theirs."""
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics import BLEU

    chance = random.Random(1)
    sources = [_text(chance, 800) for _ in range(5)]
    quoted = [sentence + "." for sentence in sources[0].split(".")[:10]]
    answer = " ".join([*quoted, _text(chance, 150)])
    given = JudgeInput(answer=answer, retrieved_passages=[Passage(text=source) for source in sources])
    windows = judge_wording(given, "aligned").evidence["windows"]
    aligned = " ".join(sources[int(w["source"])][slice(*w["source_span"])] for w in windows)

    def rouge(stemmer: bool) -> None:
        scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stemmer)
        for reference in (*sources, aligned):
            scorer.score(reference, answer)

    def bleu() -> None:
        for references in (sources, [aligned]):
            for order in range(1, ORDERS + 1):
                BLEU(max_ngram_order=order, effective_order=True).sentence_score(answer, references)

    seconds = _cpu(
        ours=lambda: [judge_wording(given, "aligned") for _ in range(10)],
        rouge=lambda: rouge(stemmer=True),
        rouge_unstemmed=lambda: rouge(stemmer=False),
        bleu=bleu,
    )
    ours = seconds["ours"] / 10
    stemmed, plain = ((seconds[name] + seconds["bleu"]) / ours for name in ("rouge", "rouge_unstemmed"))
    print(
        f"\nterminology, 300 words against 5 x 800: {ours * 1000:.1f} ms of CPU; rouge-score with a stemmer, as in its"
        f" README, + sacrebleu: {stemmed:.0f} times as much; without a stemmer, as ours is: {plain:.0f} times"
    )
    assert stemmed > 50  # 100 and more on a machine that does nothing else


def test_time_grows_with_the_answer() -> None:
    """A quadratic step that mattered would make twice the words cost four times as much."""
    chance = random.Random(2)
    sources = [Passage(text=_text(chance, 800)) for _ in range(5)]
    half, whole = (JudgeInput(answer=_text(chance, n), retrieved_passages=sources) for n in (3_000, 6_000))
    seconds = _cpu(half=lambda: judge_wording(half, "aligned"), whole=lambda: judge_wording(whole, "aligned"))
    print(f"\nterminology, 6,000 words: {seconds['whole'] / seconds['half']:.1f} times as much CPU as 3,000")
    assert seconds["whole"] < 3.5 * seconds["half"]


def _cpu(**works: Callable[[], object]) -> dict[str, float]:
    """CPU seconds of each, the best of `ROUNDS` that take turns, so that what else the machine does slows all alike."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, work in works.items():
            began = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - began)
    return best
