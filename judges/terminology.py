"""Whether an answer keeps the wording of its sources: BLEU (sacrebleu) and ROUGE against aligned windows.

BLEU and ROUGE compare texts of like length; against whole documents a verbatim answer scores nothing. So each
sentence of the answer is held against the window of a source that shares the most words with it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from glassbox.contract.request import JudgeInput
from glassbox.contract.verdict import Method, NotApplicable, Scored
from judges.injection import suspects
from judges.languages import spoken
from judges.lexical.statements import abstains
from judges.ngrams import MOST_CELLS, OTHER, AnswerWords, Numbers, SourceWords, align, overlaps
from judges.port import NEEDS, Case, Judgement
from judges.rouge import Prediction, Rouge, best, rouge
from judges.shown import Shown, uncited, with_what_it_says, without_attacks
from judges.sources import Sources, sources_of
from judges.text import RULES, script, sentences
from judges.tokens import Tokens
from judges.tongues import Tongues

PART = "terminology"
ORDERS = 4
FOREIGN_BELOW = 0.5
"""Share of the answer's words found in their windows under which script and language of its sentences are compared:
a text that shares its words with the source is in the source's language, whatever a vote of function words says."""


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


class Comparison:
    """An answer's words and those of its sources, ready for every figure of one against the other."""

    def __init__(self, words: Sequence[str], sources: Iterable[Sequence[str]]) -> None:
        self.answer = AnswerWords(words)
        self.sources = SourceWords([self.answer.numbered(source) for source in sources])
        # No other word is in a common subsequence.
        self.prediction = Prediction(self.answer.flat[self.sources.have(self.answer)].tolist())

    def figures(self, references: SourceWords) -> Figures:
        """Against each reference, taken from the sources, as its library does it with several: BLEU clips an n-gram by
        the reference that has it most often and takes the length of the closest, ROUGE takes the reference with the
        best F1."""
        size = len(self.answer.flat)
        found = overlaps(self.answer, references, ORDERS)
        correct, total = [overlap.in_any for overlap in found], [overlap.total for overlap in found]
        closest = min(references.lengths, key=lambda length: (abs(length - size), length))
        bleu = [_bleu(correct[:order], total[:order], size, closest) for order in range(1, ORDERS + 1)]
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
            counts={"correct": correct, "total": total, "answer_words": size, "reference_words": closest},
            rouge_1=rouge_1,
            rouge_2=rouge_2,
            rouge_l=best(self._rouge_l(references.words(source)) for source in range(len(references.lengths))),
        )

    def _rouge_l(self, reference: Numbers) -> Rouge:
        shared = reference[reference != OTHER]
        return rouge(self.prediction.common(shared.tolist()), len(reference), len(self.answer.flat))


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
    """`reference`: `aligned` or `whole_sources`, which of the two comparisons gives the score.

    What a source says to the judge is not there to be quoted. An answer that says something to the judge is read with
    it and without it, and the lower score counts: neither can it raise the score, nor can words be hidden in it.
    """
    sources = sources_of(given)
    texts = [_Text.of(without_attacks(text) if suspects(text) else _as_given(text)) for text in sources.texts]
    answer = given.answer or ""
    cuts = (with_what_it_says, without_attacks) if suspects(answer) else (_as_given,)
    return min((_judge(_Text.of(cut(answer)), texts, sources, reference) for cut in cuts), key=_rank)


def _as_given(text: str) -> Shown:
    return Shown(text, None, ())


def _rank(judgement: Judgement) -> Decimal:
    [verdict] = judgement.verdicts
    return verdict.score if isinstance(verdict, Scored) else Decimal(2)


@dataclass(frozen=True)
class _Text:
    """What is read of a text, its citation marks left out: its words are those of `shown.text`."""

    shown: Shown
    tokens: Tokens

    @classmethod
    def of(cls, shown: Shown) -> "_Text":
        shown = uncited(shown)
        return cls(shown, Tokens.of(shown.text))

    def sentences(self) -> list[tuple[int, int]]:
        """The words `[first, end)` of each sentence. The number or letter of a list item is in none."""
        bounds = np.array(sentences(self.shown.text)).reshape(-1, 2)
        return list(map(tuple, self.tokens.starts.searchsorted(bounds).tolist()))

    def span(self, first: int, end: int) -> list[int]:
        """Characters of the given text from the beginning of word `first` to the end of the word before `end`."""
        return list(self.shown.span(*self.tokens.span(first, end)))


def _judge(answer: _Text, texts: Sequence[_Text], sources: Sources, reference: str) -> Judgement:
    method = _method(reference)
    evidence: dict[str, Any] = {"sources": sources.evidence(), "reference": reference}
    said = answer.shown.text
    pieces = answer.sentences()
    if not pieces:
        return _not_applicable("too_short", method, evidence)
    if abstains(said):
        return _not_applicable("abstained", method, evidence)
    if not any(text.tokens.words for text in texts):
        return _not_applicable("no_sources", method, evidence)

    words = [word for start, end in pieces for word in answer.tokens.words[start:end]]
    comparison = Comparison(words, [text.tokens.words for text in texts])
    whole = comparison.sources
    windows = align(comparison.answer, [end - start for start, end in pieces], whole)
    evidence["windows"] = [
        {
            "answer_span": answer.span(start, end),
            "words": end - start,
            "source": sources.ids[window.source],
            "source_span": texts[window.source].span(window.start, window.end),
            "matches": window.matches,
            "verbatim": window.verbatim,
        }
        for (start, end), window in zip(pieces, windows, strict=True)
    ]
    if sum(window.matches for window in windows) < FOREIGN_BELOW * len(words):
        given = [text.shown.text for text in texts]
        cause = Tongues.of(given).wholly_apart(said, [said[start:end] for start, end in sentences(said)])
        if cause is not None:
            tell = script if cause == "other_script" else spoken
            evidence[cause] = {"answer": tell(said), "sources": tell("\n".join(given))}
            return _not_applicable(cause, method, evidence)

    aligned = np.concatenate([whole.words(window.source)[window.start : window.end] for window in windows])
    figures = {"aligned": comparison.figures(SourceWords([aligned])), "whole_sources": comparison.figures(whole)}
    evidence.update({name: each.evidence() for name, each in figures.items()})
    return Judgement((Scored.of(PART, figures[reference].score, method=method),), evidence)


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
            # rougeL: over the whole text, whose line breaks mean nothing; rougeLsum would take it line by line.
            "rouge": {"types": ["rouge1", "rouge2", "rougeL"], "stemmer": False, "arithmetic": "rouge-score 0.1.2"},
            "score": "harmonic mean of BLEU-4 and ROUGE-L F1",
            "words": RULES,
            "case": "NFC, case folded",
            "window": "words of the sentence, inside one source; ties: equal to the sentence, then earliest;"
            f" around the rarest word beyond {MOST_CELLS} pairs of a sentence that is not verbatim and a source word",
            "whole_sources": "each source a reference; BLEU clips by the best, ROUGE takes the best F1",
            "foreign_below": f"{FOREIGN_BELOW}, and no sentence in a language of the sources",
            "attacks": "left out of sources; the answer is read with and without its own, the lower score counts",
        },
    )
