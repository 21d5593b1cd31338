"""Embeddings by a sentence-transformers model of this process.

A text longer than the model's window is never cut off: it is split at sentence or word bounds into windows counted in
the model's own sub-tokens, and its vector is the mean of the windows' vectors weighted by their sub-tokens.

A vector does not depend on what else is embedded at the same time. The last digits of a row depend on the shape of the
batch, so each window is padded to a multiple of `STEP` sub-tokens and each batch filled up to as many rows as the
budget allows: one shape for each length. Only where memory runs out, and the budget is halved, may the last digits
change; the judge rounds similarities, which hides that.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbox.contract.canonical import sha256_hex
from judges.batching import Batcher
from judges.device import budget, choose, out_of_memory
from judges.embedders import Embedded, Vectors, input_digest
from judges.model_files import loading, sub_token_limit
from judges.port import Case, JudgeError
from judges.text import sentences
from judges.weights import Weights

STEP = 32
"""Sub-tokens: lengths are rounded up to a multiple."""
LONGEST = 8_192
"""Sub-tokens of a window, whatever the model could read: the cost of attention grows with their square."""
_ON_CPU = 512  # sub-tokens of a batch: more do not make a CPU faster
_ON_GPU = 8_192
_KEPT_BYTES = 64 << 20


@dataclass(frozen=True)
class _Window:
    """`key`: digest of text and role. `tokens`: its own sub-tokens; `length`: with all that is added to them, rounded
    up. `role`: `query` or `document`, for models that embed them differently."""

    key: bytes
    text: str = field(compare=False)
    role: str = field(compare=False)
    tokens: int = field(compare=False)
    length: int = field(compare=False)


@dataclass(frozen=True)
class _Text:
    """`unread`: most of its sub-tokens stand for something that the model's vocabulary does not have."""

    windows: tuple[_Window, ...]
    unread: bool


class SentenceEmbedder:
    """`model`: NAME, NAME@REVISION or a local folder; `device`: as `judges.device.choose` takes it. Loading takes
    seconds and raises `JudgeError` (model_missing). Vectors are kept by digest, up to 64 MiB, texts are not."""

    family = "embedding"

    def __init__(self, model: str, device: str = "auto") -> None:
        weights, where = Weights.named(model), choose(device)
        with loading(model, "sentence-transformers"):
            import sentence_transformers

            self._model = sentence_transformers.SentenceTransformer(
                weights.source, revision=weights.revision, device=where.name
            )
        if where.dtype == "float16":
            self._model.half()
        self._model.eval()
        self._prompts = _prompts(self._model.prompts)
        self._tokenizer = self._own_tokenizer(model)
        self._lock = threading.Lock()  # a tokenizer serves one thread at a time
        config = getattr(self._model[0], "config", None)
        special = self._tokenizer.num_special_tokens_to_add(pair=False)
        self._window = min(sub_token_limit(self._tokenizer, [config]) + special, LONGEST)
        dimensions = self._model.get_embedding_dimension()
        if not dimensions:
            raise JudgeError("model_missing", f"{model} does not say how long its vectors are")
        if any(self._sub_tokens(role, "a")[2] + STEP > self._window for role in self._prompts):
            raise JudgeError("model_missing", f"{model} reads {self._window} sub-tokens: too few beside its prompt")
        self._dimensions = dimensions
        self.model = weights.identity(getattr(config, "_commit_hash", None))
        self.parameters: Mapping[str, Any] = {
            "library": f"sentence-transformers {sentence_transformers.__version__}",
            "precision": where.dtype,
            "window": self._window,
            "long_texts": "windows cut at sentence or word bounds, mean weighted by sub-tokens",
            "prompts": {role: sha256_hex(prompt.encode()) for role, prompt in self._prompts.items() if prompt},
            "unread": "most sub-tokens unknown to the vocabulary",
        }
        self._kept: OrderedDict[bytes, Vectors] = OrderedDict()
        self._batcher = Batcher(
            self._run,
            size=lambda window: window.length,
            budget=budget(where, bytes_each=128 * dimensions, most=_ON_GPU, on_cpu=_ON_CPU),
            out_of_memory=out_of_memory,
            uniform=True,
        )

    async def embed(self, query: str, passages: Sequence[str], case: Case) -> Embedded:
        """Unit vectors; rows of unread texts are zero. Raises `JudgeError`: `bad_embedding` where a vector is not
        finite or has length zero."""
        asked = [("query", query), *(("document", passage) for passage in passages)]
        texts = await asyncio.to_thread(lambda: [self._text(role, text) for role, text in asked])
        read = [text for text in texts if not text.unread]
        rows = iter(await self._batcher.submit([window for text in read for window in text.windows]))
        vectors = np.zeros((len(texts), self._dimensions), dtype="<f4")
        for n, text in enumerate(texts):
            if not text.unread:
                vectors[n] = _pooled([(window.tokens, next(rows)) for window in text.windows])
        raw = vectors.tobytes()
        unread = [n for n, text in enumerate(texts) if text.unread]
        call = {
            "schema": "embeddings",
            "model": self.model,
            "input_digest": input_digest(self.model, query, passages),
            "output_digest": sha256_hex(raw),
            "windows": [len(text.windows) for text in texts],
            "unread": unread,
        }
        return Embedded(vectors, self.model, (call,), (raw,), frozenset(unread))

    async def close(self) -> None:
        await self._batcher.close()

    def _own_tokenizer(self, model: str) -> Any:
        """A copy for this class, because the model's own is used in another thread. It must say where sub-tokens
        stand, and count them as the model does."""
        if not getattr(self._model.tokenizer, "is_fast", False):
            raise JudgeError("model_missing", f"the tokenizer of {model} does not say where its sub-tokens stand")
        tokenizer = copy.deepcopy(self._model.tokenizer)
        for role, prompt in self._prompts.items():
            fed = self._model.preprocess(["a probe"], prompt=prompt, task=role)["input_ids"].shape[1]
            if fed != len(tokenizer(prompt + "a probe")["input_ids"]):
                raise JudgeError("model_missing", f"{model} reads more than the text: it embeds no plain texts")
        return tokenizer

    def _text(self, role: str, text: str) -> _Text:
        with self._lock:
            ids, offsets, added = self._sub_tokens(role, text)
            unknown = self._tokenizer.unk_token_id
            unread = unknown is not None and 2 * ids.count(unknown) > len(ids)
            return _Text(tuple(self._windows(role, text, len(ids), offsets, added)), unread or not ids)

    def _sub_tokens(self, role: str, text: str) -> tuple[list[int], list[int], int]:
        """The sub-tokens of the text, where in it each begins, and how many are added to them."""
        prompt = self._prompts[role]
        whole = self._tokenizer(
            prompt + text, truncation=False, padding=False, return_offsets_mapping=True, verbose=False
        )
        own = [
            (token, max(start - len(prompt), 0))
            for token, (start, end) in zip(whole["input_ids"], whole["offset_mapping"], strict=True)
            if end > len(prompt)
        ]
        return [token for token, _ in own], [start for _, start in own], len(whole["input_ids"]) - len(own)

    def _windows(self, role: str, text: str, count: int, offsets: Sequence[int], added: int) -> list[_Window]:
        if count + added <= self._window:
            key = hashlib.sha256(f"{self._prompts[role]}\0{role}\0{text}".encode()).digest()
            length = min(-(-(count + added) // STEP) * STEP, self._window)
            return [_Window(key, text, role, count, length)]
        made: list[_Window] = []
        for part in split(text, offsets, self._window - added):
            # Cut out of its text, a part may have other sub-tokens, and too many again.
            ids, starts, extra = self._sub_tokens(role, part)
            made += self._windows(role, part, len(ids), starts, extra)
        return made

    def _run(self, windows: Sequence[_Window]) -> list[Vectors]:
        for window in windows:
            if window.key in self._kept:
                self._kept.move_to_end(window.key)
        for role, encode in (("query", self._model.encode_query), ("document", self._model.encode_document)):
            asked = [window for window in windows if window.role == role and window.key not in self._kept]
            if not asked:
                continue
            length = asked[0].length
            rows = max(self._batcher.budget // length, 1)
            texts = [window.text for window in asked]
            vectors = encode(
                texts + texts[:1] * (rows - len(texts)),
                prompt=self._prompts[role],
                batch_size=rows,
                show_progress_bar=False,
                processing_kwargs={"text": {"padding": "max_length", "max_length": length}},
            )
            for window, vector in zip(asked, vectors, strict=False):
                self._kept[window.key] = np.asarray(vector, dtype=np.float32)
        made = [self._kept[window.key] for window in windows]
        while len(self._kept) * 4 * self._dimensions > _KEPT_BYTES:
            self._kept.popitem(last=False)
        return made


def _prompts(known: Mapping[str, str | None]) -> dict[str, str]:
    """What is put before a text by its role. `encode_document` itself misses a "passage" prompt (6.2.0): it finds its
    own empty "document" prompt first."""
    return {
        "query": known.get("query") or "",
        "document": next((prompt for name in ("document", "passage", "corpus") if (prompt := known.get(name))), ""),
    }


def split(text: str, offsets: Sequence[int], room: int) -> list[str]:
    """A text as consecutive parts of at most `room` of its sub-tokens, all of it but white space at their ends.
    `offsets`: where each sub-token begins, rising. A part ends with a sentence where one ends in it, else with a word,
    else after `room` sub-tokens."""
    begins = {span.start for span in sentences(text)}
    whole = [n for n, at in enumerate(offsets) if at in begins]
    words = [n for n, at in enumerate(offsets) if text[at].isspace() or text[at - 1 : at].isspace()]
    parts = []
    first = 0
    while first < len(offsets):
        last = first + room
        if last < len(offsets):
            last = _last(whole, first, last) or _last(words, first, last) or last
            while last < len(offsets) and offsets[last] == offsets[first]:  # one character of many sub-tokens
                last += 1
        parts.append(text[offsets[first] : offsets[last] if last < len(offsets) else len(text)].strip())
        first = last
    return [part for part in parts if part]


def _last(places: Sequence[int], first: int, end: int) -> int | None:
    """The last of the rising `places` in (first, end]."""
    at = bisect_right(places, end) - 1
    return places[at] if at >= 0 and places[at] > first else None


def _pooled(windows: Sequence[tuple[int, Vectors]]) -> Vectors:
    """The unit vector of a text: the mean of its windows' unit vectors, weighted by their sub-tokens."""
    whole = np.zeros_like(windows[0][1], dtype=np.float64)
    for tokens, vector in windows:
        whole += tokens * _unit(vector.astype(np.float64))
    return _unit(whole).astype(np.float32)


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    norm = np.linalg.norm(vector)
    if not np.isfinite(norm) or norm == 0:
        raise JudgeError("bad_embedding", "a vector is not finite or has length zero")
    return vector / norm
