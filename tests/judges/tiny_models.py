"""Models of a few hundred kilobytes with random weights, so that the libraries' own loading and inference run.

What they say means nothing; where a right answer must be known, a test scripts the model (`scripted.py`) instead.
"""

import argparse
import string
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LETTERS = string.ascii_letters + string.digits


def backbone(
    folder: Path, hidden: int = 32, layers: int = 1, heads: int = 2, positions: int = 128, words: Iterable[str] = ()
) -> Path:
    """A BERT whose sub-tokens are characters, so that a word is as many of them as it has letters, but for `words`."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(7)
    folder.mkdir(parents=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    listed = [*special, *LETTERS, *string.punctuation, *(f"##{letter}" for letter in LETTERS)]
    listed += sorted(set(words) - set(listed))
    vocabulary = {piece: number for number, piece in enumerate(listed)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=5_000))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=positions, **names)
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * hidden,
        max_position_embeddings=positions,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def gliner(folder: Path, base: Path, hidden: int = 32, words: int = 24, spread: float = 4) -> Path:
    """A GLiNER whose scores spread over (0, 1), with a window of `words`."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from gliner import GLiNER, GLiNERConfig

        torch.manual_seed(8)
        config = GLiNERConfig(model_name=str(base), hidden_size=hidden, max_width=4, max_len=words, dropout=0.0)
        model = GLiNER.from_config(config, backbone_from_pretrained=False)
        _spread(model.model, spread)
        model.save_pretrained(folder)
    return folder


def glirel(folder: Path, base: Path, hidden: int = 64, words: int = 24, spread: float = 4, **changes: object) -> Path:
    """A GLiREL over the same backbone; `changes` go to its configuration."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from glirel import GLiREL

        torch.manual_seed(9)
        config = {
            "model_name": str(base),
            "hidden_size": hidden,
            "max_width": 12,
            "max_len": words,
            "dropout": 0.0,
            "fine_tune": True,
            "subtoken_pooling": "first",
            "span_marker_mode": "markerv1",
            "rel_mode": "marker",
            "label_embed_strategy": "ent_token",
            "scorer": "dot_thresh",
            "ffn_mul": 4,
            "refine_prompt": True,
            "refine_relation": True,
            "max_entity_pair_distance": None,
            "fixed_relation_types": False,
            **changes,
        }
        model = GLiREL(argparse.Namespace(**config))
        _spread(model, spread)
        model.save_pretrained(folder)
    return folder


def _spread(model: Any, factor: float) -> None:
    """Make the scores differ from span to span: weights as they are initialised give every span about the same."""
    import torch

    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.startswith(("rnn", "span_rep_layer")):
                weights.mul_(factor)
            elif "word_embeddings" in name:
                weights.mul_(30)
