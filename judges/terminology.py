"""Whether an answer keeps the wording of its sources: BLEU (sacrebleu) and ROUGE against aligned windows.

BLEU and ROUGE compare texts of like length; against whole documents a verbatim answer scores nothing. So each
sentence of the answer is held against the window of a source that shares the most words with it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

from sacrebleu.metrics.bleu import BLEU

from glassbox.contract.request import JudgeInput
from glassbox.contract.verdict import Method, NotApplicable, Scored
from judges.lexical.statements import abstains
from judges.ngrams import SourceWords, align, overlaps
from judges.port import NEEDS, Case, Judgement
from judges.rouge import Rouge, best, rouge, rouge_l
from judges.sources import sources_of
from judges.text import Span, language, normalise, script, sentences, word_spans

PART = "terminology"
TEXT_RULES = "judges.text/1"
ORDERS = 4
FOREIGN_BELOW = 0.5
"""Share of the answer's words found in their windows under which script and language are compared: a text that
shares its words with the source is in the source's language, whatever a vote of function words says."""


@dataclass(frozen=True)
class Figures:
    """Overlap of an answer with its references. `bleu[n-1]` is BLEU-n, None where the answer has no n-gram;
    `bleu_score` is BLEU over the orders that it has. Everything in [0, 1]; `counts` let it be recomputed."""

    bleu_score: float
    bleu: tuple[float | None, ...]
    counts: dict[str, Any]
    rouge_1: Rouge
    rouge_2: Rouge
    rouge_l: Rouge

    @property
    def score(self) -> float:
        """Harmonic mean of BLEU-4 and ROUGE-L F1; 0 where one of them is 0."""
        bleu, f1 = self.bleu_score, self.rouge_l.f1
        return 2 * bleu * f1 / (bleu + f1) if bleu and f1 else 0.0

    def evidence(self) -> dict[str, Any]:
        """Plain JSON with every figure."""
        return {
            "score": self.score,
            "bleu_score": self.bleu_score,
            "bleu": {str(order): value for order, value in enumerate(self.bleu, 1)},
            "bleu_counts": self.counts,
            **{name: getattr(self, name)._asdict() for name in ("rouge_1", "rouge_2", "rouge_l")},
        }


def compare(answer: Sequence[str], references: SourceWords) -> Figures:
    """The answer against each reference as its library does it with several: BLEU clips an n-gram by the reference
    that has it most often and takes the length of the closest, ROUGE takes the reference with the best F1."""
    found = overlaps(answer, references, ORDERS)
    correct, total = [overlap.in_any for overlap in found], [overlap.total for overlap in found]
    closest = min(references.lengths, key=lambda length: (abs(length - len(answer)), length))
    bleu = [_bleu(correct[:order], total[:order], len(answer), closest) for order in range(1, ORDERS + 1)]
    rouge_1, rouge_2 = (
        best(
            rouge(matches, max(length - less, 0), overlap.total)
            for matches, length in zip(overlap.in_each, references.lengths, strict=True)
        )
        for less, overlap in enumerate(found[:2])
    )
    return Figures(
        bleu_score=bleu[-1],
        bleu=tuple(value if count else None for value, count in zip(bleu, total, strict=True)),
        counts={"correct": correct, "total": total, "answer_words": len(answer), "reference_words": closest},
        rouge_1=rouge_1,
        rouge_2=rouge_2,
        rouge_l=best(rouge_l(reference, answer) for reference in references.words),
    )


def _bleu(correct: list[int], total: list[int], length: int, reference_length: int) -> float:
    result = BLEU.compute_bleu(
        list(correct),
        list(total),
        length,
        reference_length,
        smooth_method="exp",
        effective_order=True,
        max_ngram_order=len(correct),
    )
    return min(result.score / 100, 1.0)  # sacrebleu's exp of a sum of logs may end at 100.00000000000004


class TerminologyJudge:
    """Worker kind `terminology`: deterministic, without a model."""

    kind = "terminology"
    needs = NEEDS["terminology"]

    async def judge(self, case: Case) -> Judgement:
        """Off the event loop, since a large answer takes seconds."""
        if PART not in case.settings:
            return Judgement((), {})
        reference = case.settings[PART].get("reference", "aligned")
        return await asyncio.to_thread(judge_wording, case.input, reference)

    async def close(self) -> None:
        """Nothing is held."""


def judge_wording(given: JudgeInput, reference: str) -> Judgement:
    """`reference`: `aligned` or `whole_sources`, which of the two comparisons gives the score."""
    method = _method(reference)
    sources = sources_of(given)
    answer = given.answer or ""
    pieces = [_Words.of(answer, span) for span in sentences(answer)]
    evidence: dict[str, Any] = {"sources": sources.evidence(), "reference": reference}
    if not pieces:
        return _not_applicable("too_short", method, evidence)
    if abstains(answer):
        return _not_applicable("abstained", method, evidence)
    texts = [_Words.of(text, Span(0, len(text))) for text in sources.texts]
    if not any(text.normal for text in texts):
        return _not_applicable("no_sources", method, evidence)

    whole = SourceWords([text.normal for text in texts])
    windows = align([piece.normal for piece in pieces], whole)
    evidence["windows"] = [
        {
            "answer_span": piece.place(0, len(piece.spans)),
            "words": len(piece.spans),
            "source": sources.ids[window.source],
            "source_span": texts[window.source].place(window.start, window.end),
            "matches": window.matches,
            "verbatim": window.verbatim,
        }
        for piece, window in zip(pieces, windows, strict=True)
    ]
    flat = [word for piece in pieces for word in piece.normal]
    if sum(window.matches for window in windows) < FOREIGN_BELOW * len(flat):
        source_text = "\n".join(sources.texts)
        for cause, tell in (("other_script", script), ("other_language", language)):
            mine, theirs = tell(answer), tell(source_text)
            if mine and theirs and mine != theirs:
                evidence[cause] = {"answer": mine, "sources": theirs}
                return _not_applicable(cause, method, evidence)

    aligned = [word for window in windows for word in texts[window.source].normal[window.start : window.end]]
    figures = {"aligned": compare(flat, SourceWords([aligned])), "whole_sources": compare(flat, whole)}
    evidence.update({name: each.evidence() for name, each in figures.items()})
    return Judgement((Scored.of(PART, figures[reference].score, method=method),), evidence)


class _Words(NamedTuple):
    """Words of a text as they are compared, and where each stands in it."""

    normal: list[str]
    spans: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str, within: Span) -> "_Words":
        piece = text[within.start : within.end]
        spans = word_spans(piece)
        normal = [normalise(piece[start:end]) for start, end in spans]
        offset = within.start
        return cls(normal, [(start + offset, end + offset) for start, end in spans] if offset else spans)

    def place(self, start: int, end: int) -> list[int]:
        """Characters from the beginning of word `start` to the end of the word before `end`."""
        return [self.spans[start][0], self.spans[end - 1][1]]


def _not_applicable(cause: str, method: Method, evidence: dict[str, Any]) -> Judgement:
    return Judgement((NotApplicable(part=PART, cause=cause, method=method),), evidence)


@cache
def _method(reference: str) -> Method:
    return Method(
        name=f"glassbox.terminology@{reference}",
        family="rules",
        library="sacrebleu",
        version=version("sacrebleu"),
        parameters={
            "bleu": {"orders": ORDERS, "effective_order": True, "smooth": "exp", "tokenize": "none"},
            "rouge": {"types": ["rouge1", "rouge2", "rougeL"], "stemmer": False, "arithmetic": "rouge-score 0.1.2"},
            "score": "harmonic mean of BLEU-4 and ROUGE-L F1",
            "words": TEXT_RULES,
            "case": "NFC, case folded",
            "window": "words of the sentence, inside one source; ties: equal to the sentence, then earliest",
            "whole_sources": "each source a reference; BLEU clips by the best, ROUGE takes the best F1",
            "foreign_below": str(FOREIGN_BELOW),
        },
    )
