"""A model that finds what it is told to: for answers that must be known, through the real windows and batches."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judges.extract import Extractor
from judges.extract_models import ModelEntities, ModelPairs
from judges.window_model import Hit, Made, ModelAsker, Piece, Window

_WINDOW = Window(200, 200)
_MADE = Made("scripted", "tests", "1", "scripted@1", {"window": {"words": 200}})


@dataclass(eq=False)
class Scripted:
    """`entities`: phrase -> label -> score. `relations`: texts of head and tail -> predicate -> score, wherever both
    stand in a piece. A word is one sub-token, and so is a label."""

    entities: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    relations: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    window: Window = _WINDOW
    budget: int = 1_000
    digits: int = 2
    noise: float = 1e-5
    ran: list[list[Piece]] = field(default_factory=list)
    made: Made = _MADE

    def words(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\w+|\S", text)]

    def costs(self, words: Sequence[str]) -> list[int]:
        return [1] * len(words)

    def prompt(self, labels: Sequence[str]) -> int:
        return len(labels)

    def run(self, pieces: Sequence[Piece]) -> list[list[Hit]]:
        self.ran.append(list(pieces))
        return [self._relations(piece) if piece.mentions else self._entities(piece) for piece in pieces]

    def _entities(self, piece: Piece) -> list[Hit]:
        return [
            (match.start(), match.end(), label, score)
            for phrase, labels in self.entities.items()
            for match in re.finditer(rf"(?<!\w){re.escape(phrase)}(?!\w)", piece.text)
            for label, score in labels.items()
            if label in piece.labels and score > piece.threshold
        ]

    def _relations(self, piece: Piece) -> list[Hit]:
        said = [piece.text[start:end] for start, end, _ in piece.mentions]
        return [
            (head, tail, predicate, score)
            for (one, other), predicates in self.relations.items()
            for head in range(len(said))
            for tail in range(len(said))
            if (said[head], said[tail]) == (one, other)
            for predicate, score in predicates.items()
            if predicate in piece.labels and score > piece.threshold
        ]

    def out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)


def scripted_extractor(model: Scripted) -> Extractor:
    return Extractor(ModelEntities(ModelAsker(model)), ModelPairs(ModelAsker(model)))
