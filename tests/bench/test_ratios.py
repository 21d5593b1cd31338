"""Speed as ratios within one run: what GlassBox does against what its libraries do by themselves."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from glassbox.contract.request import JudgeInput, Passage
from judges.terminology import judge_wording
from ledger.checkpoint import Signer
from ledger.merkle_log import MerkleLog
from tests.streams.events import POLICY
from tests.streams.test_committer import scorecard

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


def cpu(work: Callable[[], object], times: int) -> float:
    """CPU seconds of one call, the best of `times`."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def test_terminology_against_the_libraries_it_agrees_with() -> None:
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics import BLEU

    chance = random.Random(1)
    vocabulary = [f"word{n}" for n in range(4000)]

    def text(count: int) -> str:
        return " ".join(" ".join(chance.choices(vocabulary, k=15)) + "." for _ in range(count // 15))

    sources, answer = [text(800) for _ in range(5)], text(300)
    given = JudgeInput(answer=answer, retrieved_passages=[Passage(text=source) for source in sources])
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])

    def libraries() -> None:
        BLEU(effective_order=True).sentence_score(answer, sources)
        for source in sources:
            scorer.score(source, answer)

    ours, theirs = cpu(lambda: judge_wording(given, "aligned"), 5), cpu(libraries, 2)
    print(f"\nterminology, 300 words against 5 x 800: {theirs / ours:.0f} times less CPU than rouge-score + sacrebleu")
    assert ours < theirs


async def test_a_batch_costs_less_than_its_records_one_by_one(tmp_path: Path) -> None:
    records = [scorecard(f"e{n}").record for n in range(200)]
    seconds = {}
    for size in (1, 100):
        log = MerkleLog.committer(tmp_path / str(size), Signer.generate("log.bench"))
        await log.register_policy(POLICY.document, "2026-01-01T00:00:00.000Z")
        began = time.perf_counter()
        for start in range(0, len(records), size):
            await log.append(records[start : start + size])
        seconds[size] = time.perf_counter() - began
        await log.close()
    print(f"\nledger: a record in a batch of 100 takes {seconds[1] / seconds[100]:.1f} times less time than alone")
    assert seconds[100] < seconds[1]
