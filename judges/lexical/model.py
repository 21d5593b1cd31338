"""The rules of the lexical model: pure, deterministic, without a network.

Each rule compares word forms, never meaning. Thresholds were set on people's labels and are part of the model:
whoever changes one gives the model another name (`judges.lexical.CHAT_MODEL`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import compress
from typing import Literal

from judges.lexical.reading import NEGATION, Reading, is_number, read, unit
from judges.text import best_window, is_content, language, sentences, words

RELEVANT_COVERAGE = 0.62
QUOTED_COVERAGE = 0.5
COVERED = 0.85
UNSUPPORTED = 0.65
UNSUPPORTED_BROKEN = 0.80
"""As `UNSUPPORTED`, for a statement with more than `NOVEL_RUN_COVERED` novel words in a row: one gap is often
another word for the same thing, two together are more often another thing."""
NOVEL_RUN_COVERED = 1
NOVEL_RUN_UNSUPPORTED = 3
MIN_WINDOW = 30
QUESTION_WORDS = 6
DIMENSIONS = 256

Verdict = Literal["unsupported", "undecided", "covered"]
_VERDICTS: tuple[Verdict, ...] = ("unsupported", "undecided", "covered")  # worst first


@dataclass(frozen=True)
class Support:
    """How a statement stands against the passages; `passage` is the index of the one that counted."""

    verdict: Verdict
    reason: str  # begins "lexical:" and the verdict
    passage: int | None


@dataclass(frozen=True)
class Relevance:
    """Whether one passage is relevant, and the figure that said so."""

    relevant: bool
    reason: str


def relevance(query: str, passages: Sequence[str], reference: str | None = None) -> list[Relevance]:
    """Which passages are relevant to the query, one verdict a passage in their order.

    Relevant: the passage has at least .62 of the query's content stems, each weighted by
    idf(t) = 1 + ln((1 + N) / (1 + df)) over N documents, which are the given passages and the query itself.
    Against a reference answer of at least three content words: relevant if some sentence of the reference is not
    unsupported by that passage alone (see `support`).
    """
    if reference is not None and len(_content_units(reference)) >= NOVEL_RUN_UNSUPPORTED:
        told = [reference[start:end] for start, end in sentences(reference)]
        return [_relevance_to_reference(told, passage) for passage in passages]
    return [
        Relevance(coverage >= RELEVANT_COVERAGE, f"lexical: {coverage:.2f} of the query's weighted content words")
        for coverage in _coverages(query, passages)
    ]


def quotation(question: str, passages: Sequence[str]) -> tuple[int, str] | None:
    """What this model answers to a question: the sentence that has most of the question's content stems, weighted as in
    `relevance` over all sentences, and the index of its passage. None where no sentence has half of them."""
    told = [(index, text[start:end]) for index, text in enumerate(passages) for start, end in sentences(text)]
    coverages = _coverages(question, [sentence for _, sentence in told])
    best = max(coverages, default=0.0)
    return told[coverages.index(best)] if best >= QUOTED_COVERAGE else None


def _coverages(query: str, texts: Sequence[str]) -> list[float]:
    """The weighted share of the query's content stems that each text has."""
    documents = [frozenset(read(text).units) for text in texts]
    size = len(documents) + 1
    weights = {
        wanted: 1 + math.log((1 + size) / (2 + sum(wanted in document for document in documents)))
        for wanted in sorted(set(_content_units(query)))
    }
    total = math.fsum(weights.values())
    return [
        math.fsum(weight for wanted, weight in weights.items() if wanted in document) / total if total else 0.0
        for document in documents
    ]


def _relevance_to_reference(told: Sequence[str], passage: str) -> Relevance:
    found = sum(support(sentence, [passage]).verdict != "unsupported" for sentence in told)
    return Relevance(found > 0, f"lexical: {found} of {len(told)} sentences of the reference answer")


def support(statement: str, passages: Sequence[str]) -> Support:
    """Hold a statement of n words against the best window of max(30, 2n) words of a single passage.

    *unsupported*: a number, name or negation of the statement is absent there, or a word is negated on one side
    only, or three novel content words stand in a row, or fewer than .65 of the content words are there (.80 where
    two novel ones stand in a row). *covered*: at least .85 are there and no two novel ones in a row. *undecided*:
    anything between. The passage that serves the statement best counts, never the union of passages. A whole
    sentence of a passage is always covered.
    """
    best: tuple[int, float] | None = None
    found = Support("unsupported", "lexical:unsupported no passage was given", None)
    spoken = language(statement)
    for index, passage in enumerate(passages):
        source = read(passage)
        verdict, coverage, why = _compare(read(statement, spoken or source.language), source)
        rank = (_VERDICTS.index(verdict), coverage)
        if best is None or rank > best:
            best = rank
            found = Support(verdict, f"lexical:{verdict} {why}", index)
    return found


def _compare(statement: Reading, source: Reading) -> tuple[Verdict, float, str]:
    content = statement.content or statement.function
    if not (content or statement.negations):
        return "unsupported", 0.0, "no words to compare"
    window = _window(statement, source, content)
    there = frozenset(source.units[window])
    signed_there = frozenset(source.signed[window])
    denied_there = frozenset(compress(source.units[window], source.denied[window]))

    novel = [statement.units[i] not in there for i in content]
    coverage = novel.count(False) / len(content) if content else 1.0
    figures = f"{coverage:.2f} of the content words"
    for index in content:
        word = statement.units[index]
        if word in there:
            if _contradicts(statement, index, signed_there, denied_there):
                return "unsupported", coverage, f"negated on one side only: {word}"
        elif is_number(word) or index in statement.names:
            return "unsupported", coverage, f"{'number' if is_number(word) else 'name'} absent: {word}"
    if statement.negations and NEGATION not in there:
        return "unsupported", coverage, "negation absent"
    run = _longest_run(novel)
    if run >= NOVEL_RUN_UNSUPPORTED:
        return "unsupported", coverage, f"{run} novel content words in a row"
    if coverage < (UNSUPPORTED if run <= NOVEL_RUN_COVERED else UNSUPPORTED_BROKEN):
        return "unsupported", coverage, f"{figures}, {run} novel in a row"
    if coverage >= COVERED and run <= NOVEL_RUN_COVERED:
        return "covered", coverage, figures
    return "undecided", coverage, f"{figures}, {run} novel in a row; counted as supported"


def _window(statement: Reading, source: Reading, content: Sequence[int]) -> slice:
    """The words of the source to compare with: of the windows that share most words, the first one that also
    negates the same of them, if there is one."""
    size = max(MIN_WINDOW, 2 * len(statement.units))
    negations = [NEGATION] * statement.negations
    best = best_window([statement.units[i] for i in content] + negations, source.units, size)
    if statement.negations or source.negations:
        signed = best_window([statement.signed[i] for i in content] + negations, source.signed, size)
        if signed.matches == best.matches:
            best = signed
    return slice(best.start, best.start + size)


def _contradicts(statement: Reading, index: int, signed: frozenset[str], denied: frozenset[str]) -> bool:
    """Whether a word that both have is denied outright on one side and nowhere within reach of a negation on
    the other."""
    word = statement.units[index]
    if statement.denied[index]:
        return NEGATION + word not in signed
    return statement.signed[index] == word and word not in signed and word in denied


def _longest_run(flags: Sequence[bool]) -> int:
    longest = current = 0
    for flag in flags:
        current = current + 1 if flag else 0
        longest = max(longest, current)
    return longest


@lru_cache(maxsize=512)
def _content_units(text: str) -> tuple[str, ...]:
    """Units of the content words; of all words where a text has no others."""
    spoken = language(text)
    units = [(unit(token.text), is_content(token.text, spoken)) for token in words(text)]
    return tuple(u for u, carries in units if carries) or tuple(u for u, _ in units)


def question_back(answer: str) -> str:
    """The question that the answer might answer: "What about" and its first six distinct content words.

    All words stand in where none carries content; without any word the question is empty.
    """
    spoken = language(answer)
    tokens = words(answer)
    chosen = [t for t in tokens if is_content(t.text, spoken)] or tokens
    distinct = {unit(t.text): t.text for t in reversed(chosen)}
    ordered = list(dict.fromkeys(distinct[unit(t.text)] for t in chosen))[:QUESTION_WORDS]
    return f"What about {' '.join(ordered)}?" if ordered else ""


def embed(text: str) -> tuple[float, ...]:
    """Signed hashed set of content stems: 256 numbers of Euclidean length 1, never all zero.

    A text without words points along the first axis, which no word uses (so its cosine with any other is 0).
    """
    summed: dict[int, float] = {}
    for word in set(_content_units(text)):
        axis, sign = _axis(word)
        summed[axis] = summed.get(axis, 0.0) + sign
    length = math.sqrt(sum(x * x for x in summed.values()))  # of small integers: exact in any order
    vector = [0.0] * DIMENSIONS
    if length == 0:
        vector[0] = 1.0
    else:
        for axis, x in summed.items():
            vector[axis] = x / length
    return tuple(vector)


@lru_cache(maxsize=65_536)
def _axis(word: str) -> tuple[int, float]:
    digest = int.from_bytes(blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
    return 1 + (digest >> 1) % (DIMENSIONS - 1), 1.0 if digest & 1 else -1.0
