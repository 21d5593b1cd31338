"""A model of a library of the extra `models`: where it is, what it is called in a method, how much it reads at once."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from judges.port import JudgeError
from judges.weights import Weights

EXTRA = "pip install 'glassbox[models]'"
_UNLIMITED = 1_000_000  # a tokenizer without a limit of its own says 1e30
_DEFAULT_LIMIT = 512


class ModelFiles(NamedTuple):
    """A model on this machine. `name`: name@revision, as `Weights.identity` has it."""

    folder: Path
    name: str


def find_model(wanted: str, *patterns: str) -> ModelFiles:
    """The model `NAME`, `NAME@REVISION` or a folder; what is not on this machine is fetched from the hub, of it the
    files that `patterns` match. Raises `JudgeError` (model_missing)."""
    weights = Weights.named(wanted)
    if Path(weights.source).is_dir():
        return ModelFiles(Path(weights.source), weights.identity())
    from huggingface_hub import snapshot_download

    try:
        found = Path(
            snapshot_download(weights.source, revision=weights.revision, allow_patterns=list(patterns) or None)
        )
    except Exception as error:
        raise JudgeError(
            "model_missing",
            f"{wanted} is neither a folder nor a model that could be fetched ({type(error).__name__}): give a folder, "
            "NAME or NAME@REVISION",
        ) from None
    return ModelFiles(found, weights.identity(found.name))  # a snapshot's folder is named by its commit


@contextmanager
def loading(wanted: str, library: str) -> Iterator[None]:
    """Around the import of a library and the loading of its model: its warnings are not ours, its absence and its
    failure become a `JudgeError` (model_missing) that says what to do."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from transformers.utils import logging

            logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # a service's log is no terminal
            yield
    except ModuleNotFoundError as error:
        missing = f"{error.name} is not installed" if error.name else str(error)
        raise JudgeError("model_missing", f"{missing}: {EXTRA}") from error
    except JudgeError:
        raise
    except Exception as error:
        raise JudgeError(
            "model_missing", f"{wanted} cannot be loaded as a model of {library} ({type(error).__name__}: {error})"
        ) from error


def word_costs(tokenizer: Any) -> Callable[[Sequence[str]], list[int]]:
    """How many sub-tokens each word of a text takes. `tokenizer`: a fast one of transformers. What is returned has a
    copy of its own: a tokenizer that is used by two threads at once fails."""
    from tokenizers import Tokenizer

    own = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    own.no_truncation()
    own.no_padding()

    def costs(words: Sequence[str]) -> list[int]:
        counted = Counter(own.encode(list(words), is_pretokenized=True, add_special_tokens=False).word_ids)
        return [counted[place] for place in range(len(words))]

    return costs


def sub_token_limit(tokenizer: Any, configs: Iterable[Any]) -> int:
    """Sub-tokens of text that a model reads at once: the least of what its tokenizer and its parts' configurations
    say, less the special ones around the text."""
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < _UNLIMITED else []
    for config in configs:
        positions = getattr(config, "max_position_embeddings", None) or 0
        if positions > 0:
            # RoBERTa's positions begin after its padding's.
            limits.append(positions - 2 if "roberta" in getattr(config, "model_type", "") else positions)
    return min(limits, default=_DEFAULT_LIMIT) - int(tokenizer.num_special_tokens_to_add(pair=False))
