"""GLiNER: which spans of a text are of the types that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from itertools import groupby
from typing import Any

from judges.device import Device, budget, choose, out_of_memory
from judges.model_files import find_model, loading, sub_token_limit, word_costs
from judges.window_model import Hit, Made, Piece, Window

_BYTES_EACH = 400_000
"""Memory of a sub-token in a batch, a generous estimate for a large encoder."""


class Gliner:
    """A model of the library gliner (`judges.window_model.Model`)."""

    def __init__(self, model: Any, name: str, device: Device) -> None:
        self._model = model
        model.decoder.greedy_search = _every  # of spans that overlap we choose, by rounded scores and over all windows
        processor = model.data_processor
        tokenizer = processor.transformer_tokenizer
        self._split = processor.words_splitter
        self._marks = (processor.ent_token, processor.sep_token)
        self.costs = word_costs(tokenizer)
        self.window = Window(
            sub_token_limit(tokenizer, (part.config for part in model.modules() if hasattr(part, "config"))),
            model.config.max_len,
        )
        self.budget = budget(device, bytes_each=_BYTES_EACH, most=65_536, on_cpu=4_096)
        self.digits, self.noise = 2, 2e-3 if device.is_gpu else 1e-5
        self.out_of_memory = out_of_memory
        parameters = {
            "precision": device.dtype,
            "window": {"sub_tokens": self.window.sub_tokens, "words": self.window.words, "overlap": "one sentence"},
            "score_digits": self.digits,
        }
        self.made = Made("gliner", "gliner", version("gliner"), name, parameters)

    @classmethod
    def load(cls, wanted: str, device: str) -> Gliner:
        """`wanted`: a folder, NAME or NAME@REVISION; `device`: as `device.choose` has it. Raises `JudgeError`."""
        with loading(wanted, "gliner"):
            from gliner import GLiNER

            files, on = find_model(wanted), choose(device)
            half = {"dtype": "fp16"} if on.is_gpu else {}
            model = GLiNER.from_pretrained(str(files.folder), map_location=on.name, **half)
            return cls(model.to(on.name).eval(), files.name, on)

    def words(self, text: str) -> list[tuple[int, int]]:
        return [(start, end) for _, start, end in self._split(text)]

    def prompt(self, labels: Sequence[str]) -> int:
        mark, end = self._marks
        return sum(self.costs([word for label in labels for word in (mark, label)] + [end]))

    def run(self, pieces: Sequence[Piece]) -> list[list[Hit]]:
        found: list[list[Hit]] = [[] for _ in pieces]
        order = sorted(range(len(pieces)), key=lambda n: (pieces[n].labels, pieces[n].threshold))
        for (labels, threshold), group in groupby(order, key=lambda n: (pieces[n].labels, pieces[n].threshold)):
            places = list(group)
            said = self._model.inference(
                [pieces[n].text for n in places],
                list(labels),
                threshold=threshold,
                flat_ner=True,
                multi_label=True,
                batch_size=len(places),
            )
            for n, entities in zip(places, said, strict=True):
                found[n] = [(hit["start"], hit["end"], hit["label"], float(hit["score"])) for hit in entities]
        return found


def _every(spans: list[Any], *_: Any, **__: Any) -> list[Any]:
    return spans
