"""A model that reads texts of limited length, asked about texts of any length and by many evaluations at once."""

import asyncio
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from glassbox.contract.canonical import canonical, sha256_hex
from judges.batching import Batcher
from judges.extract import Call
from judges.llm.recorded import NOT_RECORDED
from judges.port import JudgeError
from judges.text import sentences
from judges.windows import Fits, sentence_starts, windows

MENTIONS = 32
"""Entities in one window that a relation model pairs: 992 ordered pairs. What has more is cut into windows."""
_KEPT_BYTES = 64 << 20

Hit = tuple[int, int, str, float]
"""An entity: characters [start, end), label, score. A relation: head and tail as places in the list of mentions,
label, score. Scores are in [0, 1]."""

Mention = tuple[int, int, str]
"""An entity that a relation model is to pair: characters [start, end), type."""


class Made(NamedTuple):
    """What a model is, for the method of a verdict. `model`: name@revision; `parameters`: JSON without floats."""

    family: str
    library: str
    version: str
    model: str
    parameters: Mapping[str, Any]


class Window(NamedTuple):
    """How much a model reads at once: sub-tokens with the labels, without special ones; and words of text."""

    sub_tokens: int
    words: int


@dataclass(frozen=True)
class Piece:
    """A window of a text for a model. `cost`: its sub-tokens, labels included."""

    text: str
    labels: tuple[str, ...]
    threshold: float
    cost: int
    mentions: tuple[Mention, ...] = ()


class Model(Hashable, Protocol):
    """A loaded model, one of its vendor's classes with what its windows and batches are measured in.

    `budget`: sub-tokens of a batch, padding counted. `digits`: decimal places to which scores are rounded; `noise`: how
    far the rest of a batch may move a score. All but `run` are called from any thread.
    """

    made: Made
    window: Window
    budget: int
    digits: int
    noise: float

    def words(self, text: str) -> list[tuple[int, int]]:
        """Where the model's own words stand."""
        ...

    def costs(self, words: Sequence[str]) -> list[int]:
        """The sub-tokens of each word."""
        ...

    def prompt(self, labels: Sequence[str]) -> int:
        """The sub-tokens that the labels take of each window."""
        ...

    def run(self, pieces: Sequence[Piece]) -> list[list[Hit]]:
        """What the model finds in each piece above its threshold, in any order; offsets are those of the piece."""
        ...

    def out_of_memory(self, error: BaseException) -> bool: ...


@dataclass(frozen=True)
class Question:
    """A whole text and what to look for: labels, sorted; the least score as it stands in the policy; mentions only
    for relations."""

    schema: str
    text: str
    labels: tuple[str, ...]
    threshold: str
    mentions: tuple[Mention, ...] = ()

    def digest(self, model: str) -> str:
        """SHA-256 of the canonical question to a model, hexadecimal."""
        asked = {
            "schema": self.schema,
            "model": model,
            "text": sha256_hex(self.text.encode()),
            "labels": list(self.labels),
            "threshold": self.threshold,
            "mentions": [list(mention) for mention in self.mentions],
        }
        return sha256_hex(canonical(asked))


class Asker(Protocol):
    """Answers questions: a model, or what one said before.

    An answer is canonical JSON: `windows`, each with its `span` of the text and what was `found` there, as `Hit`s with
    offsets (places of mentions) of the whole text, scores rounded; `cut_words`: words longer than the window, of which
    the model read the beginning; `cut_sentences`: sentences longer than the window, read in overlapping pieces.
    """

    made: Made

    async def ask(self, questions: Sequence[Question]) -> list[Call]: ...

    async def close(self) -> None: ...


@dataclass
class _Plan:
    """`pieces`, with their `spans` of the text and the places of their `mentions` in the question's."""

    pieces: list[Piece] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    mentions: list[list[int]] = field(default_factory=list)
    cut_words: int = 0
    cut_sentences: int = 0


def plan(model: Model, question: Question) -> _Plan:
    """The windows of a question's text. Labels that take more than half of a window are asked about in groups."""
    text = question.text
    words = model.words(text)
    starts = sentence_starts(words, sentences(text))
    costs = model.costs([text[start:end] for start, end in words])
    begins = [start for start, _ in words]
    mentioned = sorted(bisect_left(begins, start) for start, _, _ in question.mentions)
    made = _Plan()
    for labels, prompt in _groups(model, question.labels):
        room = Window(model.window.sub_tokens - prompt, model.window.words)
        total = [0, *accumulate(min(cost, room.sub_tokens) for cost in costs)]
        ranges, cut = windows(len(words), starts, _fits(total, mentioned, room))
        made.cut_sentences = max(made.cut_sentences, cut)
        made.cut_words = max(made.cut_words, sum(cost > room.sub_tokens for cost in costs))
        for first, last in ranges:
            start, end = words[first][0], words[last - 1][1]
            inside = [n for n, (begin, stop, _) in enumerate(question.mentions) if start <= begin and stop <= end]
            if question.schema == "relations" and len(inside) < 2:
                continue
            mentions = tuple(
                (begin - start, stop - start, kind) for begin, stop, kind in (question.mentions[n] for n in inside)
            )
            cost = prompt + total[last] - total[first]
            made.pieces.append(Piece(text[start:end], labels, float(question.threshold), cost, mentions))
            made.spans.append((start, end))
            made.mentions.append(inside)
    return made


def _fits(total: Sequence[int], mentioned: Sequence[int], room: Window) -> Fits:
    """`total`: the sub-tokens before each word; `mentioned`: the words at which entities begin, rising."""

    def fits(start: int, end: int) -> bool:
        return (
            total[end] - total[start] <= room.sub_tokens
            and end - start <= room.words
            and bisect_left(mentioned, end) - bisect_left(mentioned, start) <= MENTIONS
        )

    return fits


@lru_cache(maxsize=256)
def _groups(model: Model, labels: tuple[str, ...]) -> tuple[tuple[tuple[str, ...], int], ...]:
    """The labels in groups that take at most half of a window, each with its sub-tokens."""
    groups: list[tuple[tuple[str, ...], int]] = []
    for label in labels:
        longer = (*groups[-1][0], label) if groups else (label,)
        cost = model.prompt(longer)
        if groups and cost <= model.window.sub_tokens // 2:
            groups[-1] = (longer, cost)
        else:
            groups.append(((label,), model.prompt([label])))
    if any(cost > model.window.sub_tokens // 2 for _, cost in groups):
        raise JudgeError("crashed", "a label is longer than half of the model's window: write it shorter")
    return tuple(groups)


def answer(question: Question, planned: _Plan, found: Sequence[Sequence[Hit]], digits: int) -> bytes:
    """The canonical answer (see `Asker`): the hits above the threshold."""
    least = float(question.threshold)
    rows = []
    for span, mentions, hits in zip(planned.spans, planned.mentions, found, strict=True):
        kept = [(one, other, label, round(score, digits)) for one, other, label, score in hits if score > least]
        if question.schema == "entities":
            moved = {(start + span[0], end + span[0], label, score) for start, end, label, score in kept}
        else:
            moved = {(mentions[head], mentions[tail], label, score) for head, tail, label, score in kept}
        rows.append({"span": list(span), "found": [list(hit) for hit in sorted(moved)]})
    said = {"windows": rows, "cut_words": planned.cut_words, "cut_sentences": planned.cut_sentences}
    return canonical(said)


class ModelAsker:
    """Asks a model: texts in windows, windows of all that ask at the same time in batches, and the same question once,
    however often it is asked. Answers are kept up to 64 MiB, the longest unused are forgotten first."""

    def __init__(self, model: Model) -> None:
        self.made = model.made
        self._model = model
        self._batcher: Batcher[Piece, list[Hit]] = Batcher(
            model.run, size=lambda piece: piece.cost, budget=model.budget, out_of_memory=model.out_of_memory
        )
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._running: dict[str, _Running] = {}

    async def ask(self, questions: Sequence[Question]) -> list[Call]:
        keys = [question.digest(self.made.model) for question in questions]
        # All are waited for, so that an error leaves nothing behind that still runs for this evaluation.
        said = await asyncio.gather(*map(self._answer, keys, questions), return_exceptions=True)
        calls = []
        for key, question, output in zip(keys, questions, said, strict=True):
            if isinstance(output, BaseException):
                raise output
            calls.append(Call(question.schema, key, output))
        return calls

    async def close(self) -> None:
        await self._batcher.close()

    async def _answer(self, key: str, question: Question) -> bytes:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = _Running(asyncio.create_task(self._work(key, question)))
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        finally:
            running.waiting -= 1
            if not running.waiting:
                running.task.cancel()  # without effect on what is done
                self._running.pop(key, None)

    async def _work(self, key: str, question: Question) -> bytes:
        planned = await asyncio.to_thread(plan, self._model, question)
        found = await self._found(planned.pieces)
        output = answer(question, planned, found, self._model.digits)
        self._kept[key] = output
        self._kept_bytes += len(output)
        while self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return output

    async def _found(self, pieces: Sequence[Piece]) -> list[list[Hit]]:
        """What the model finds in each piece, the same whatever else is in the batch: a piece with a score so near to
        the threshold or to where rounding turns that its company may decide is asked about once more, alone."""
        model = self._model
        lower = [replace(piece, threshold=max(piece.threshold - model.noise, 0.0)) for piece in pieces]
        found = await self._batcher.submit(lower)
        unsure = [
            n
            for n, hits in enumerate(found)
            if any(_turns(hit[3], pieces[n].threshold, model.digits, model.noise) for hit in hits)
        ]
        alone = [replace(lower[n], cost=self._batcher.budget) for n in unsure]
        for n, hits in zip(unsure, await self._batcher.submit(alone), strict=True):
            found[n] = hits
        return found


def _turns(score: float, threshold: float, digits: int, noise: float) -> bool:
    """Whether a score moved by less than `noise` could be on the other side of the threshold, or be rounded to another
    figure; the latter is not asked where noise is so large that it would be true of most scores."""
    step = 10.0**-digits
    to_rounding = abs(score / step % 1 - 0.5) * step
    return abs(score - threshold) < noise or (to_rounding < noise and 50 * noise < step)


@dataclass
class _Running:
    task: "asyncio.Task[bytes]"
    waiting: int = 0


class RecordedAsker:
    """Says what a model said before. `outputs`: input digest -> answer."""

    def __init__(self, made: Made, outputs: Mapping[str, bytes]) -> None:
        self.made = made
        self._outputs = outputs

    async def ask(self, questions: Sequence[Question]) -> list[Call]:
        """Raises `JudgeError` (unavailable) for a question that was not asked then."""
        keys = [question.digest(self.made.model) for question in questions]
        if not all(key in self._outputs for key in keys):
            raise JudgeError("unavailable", NOT_RECORDED)
        return [Call(q.schema, key, self._outputs[key]) for q, key in zip(questions, keys, strict=True)]

    async def close(self) -> None:
        """Nothing is held."""
