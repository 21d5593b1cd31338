"""GLiREL: which of the given relations hold between the entities of a text.

What the library asks of its caller, and does not say: it loads by `_from_pretrained` alone; a text is a list of words;
there must be two entities, no span twice; the threshold is a float; a text over `max_len` words is cut and one over
the encoder's sub-tokens fails (hence the windows); without `fixed_relation_types` it takes the types for one list a
text, and orders each at random; entity markers, where a model was trained with them, are put in by its caller.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from typing import Any

from judges.device import Device, budget, choose, out_of_memory
from judges.model_files import find_model, loading, sub_token_limit, word_costs
from judges.window_model import MENTIONS, Hit, Made, Piece, Window

_WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")  # the library's own
_FILES = ("glirel_config.json", "pytorch_model.bin")

_BYTES_EACH = 400_000
"""Memory of a sub-token in a batch, a generous estimate for a large encoder."""


class Glirel:
    """A model of the library glirel (`judges.window_model.Model`)."""

    def __init__(self, model: Any, name: str, device: Device) -> None:
        self._model = model
        self._device = device
        model.base_config.fixed_relation_types = True
        marked = getattr(model.base_config, "add_entity_markers", False)
        self._markers = (model.base_config.entity_start_token, model.base_config.entity_end_token) if marked else None
        layer = model.token_rep_layer.bert_layer
        self.costs = word_costs(layer.tokenizer)
        markers = 2 * MENTIONS if marked else 0
        self.window = Window(
            sub_token_limit(layer.tokenizer, [layer.model.config]) - markers, model.base_config.max_len - markers
        )
        self.budget = budget(device, bytes_each=_BYTES_EACH, most=65_536, on_cpu=4_096)
        self.digits, self.noise = 2, 2e-3 if device.is_gpu else 1e-5
        self.out_of_memory = out_of_memory
        parameters = {
            "precision": device.dtype,
            "window": {
                "sub_tokens": self.window.sub_tokens,
                "words": self.window.words,
                "entities": MENTIONS,
                "overlap": "one sentence",
            },
            "score_digits": self.digits,
        }
        self.made = Made("glirel", "glirel", version("glirel"), name, parameters)

    @classmethod
    def load(cls, wanted: str, device: str) -> Glirel:
        """`wanted`: a folder, NAME or NAME@REVISION; `device`: as `device.choose` has it. Raises `JudgeError`."""
        with loading(wanted, "glirel"):
            from glirel import GLiREL
            from loguru import logger

            logger.disable("glirel")
            files, on = find_model(wanted, *_FILES), choose(device)
            model = GLiREL._from_pretrained(
                model_id=str(files.folder),
                revision=None,
                cache_dir=None,
                force_download=False,
                proxies=None,
                resume_download=False,
                local_files_only=True,
                token=None,
                map_location=on.name,
            )
            return cls(model.eval(), files.name, on)

    def words(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _WORD.finditer(text)]

    def prompt(self, labels: Sequence[str]) -> int:
        words = [word for label in labels for word in (self._model.rel_token, label)]
        return sum(self.costs([*words, self._model.sep_token]))

    def run(self, pieces: Sequence[Piece]) -> list[list[Hit]]:
        import torch

        found: list[list[Hit]] = [[] for _ in pieces]
        texts = [_read(piece, self._markers) for piece in pieces]
        order = [n for n, (_, spans) in enumerate(texts) if len(spans) > 1]
        order.sort(key=lambda n: (pieces[n].labels, pieces[n].threshold))
        for (labels, threshold), group in groupby(order, key=lambda n: (pieces[n].labels, pieces[n].threshold)):
            places = list(group)
            with torch.autocast("cuda", dtype=torch.float16, enabled=self._device.is_gpu):
                said = self._model.batch_predict_relations(
                    [texts[n][0] for n in places],
                    list(labels),
                    threshold=float(threshold),
                    ner=[[[*span, "", ""] for span in texts[n][1]] for n in places],
                    top_k=-1,  # which of two predicates is the better we say, by rounded scores
                )
            for n, relations in zip(places, said, strict=True):
                spans = texts[n][1]
                found[n] = [
                    (head, tail, hit["label"], float(hit["score"]))
                    for hit in relations
                    for head in spans[_inclusive(hit["head_pos"])]
                    for tail in spans[_inclusive(hit["tail_pos"])]
                ]
        return found


def _read(piece: Piece, markers: tuple[str, str] | None) -> tuple[list[str], dict[tuple[int, int], list[int]]]:
    """The words of a piece, and of its mentions: first and last word -> their places. Mentions within one word are one
    to the model."""
    words = [match.span() for match in _WORD.finditer(piece.text)]
    begins = [start for start, _ in words]
    spans: dict[tuple[int, int], list[int]] = {}
    for place, (start, end, _) in enumerate(piece.mentions):
        first = max(bisect_right(begins, start) - 1, 0)
        spans.setdefault((first, max(bisect_left(begins, end) - 1, first)), []).append(place)
    said = [piece.text[start:end] for start, end in words]
    ordered = {span: spans[span] for span in sorted(spans)}
    return _marked(said, ordered, *markers) if markers else (said, ordered)


def _marked(
    words: Sequence[str], spans: Mapping[tuple[int, int], list[int]], opening: str, closing: str
) -> tuple[list[str], dict[tuple[int, int], list[int]]]:
    """With the markers around each span; a span then reaches from one to the other."""
    made: list[str] = []
    opened: dict[tuple[int, int], int] = {}
    moved: dict[tuple[int, int], list[int]] = {}
    for place, word in enumerate(words):
        for span in sorted((span for span in spans if span[0] == place), reverse=True):
            opened[span] = len(made)
            made.append(opening)
        made.append(word)
        for span in sorted((span for span in spans if span[1] == place), reverse=True):
            moved[opened[span], len(made)] = spans[span]
            made.append(closing)
    return made, dict(sorted(moved.items()))


def _inclusive(position: Sequence[int]) -> tuple[int, int]:
    return position[0], position[1] - 1
