"""A sentence-transformers model of random weights, small and on disk, for the real loading and inference code."""

from pathlib import Path

WINDOW = 64
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def make(folder: Path, prompts: dict[str, str] | None = None) -> Path:
    """Write a BERT of two layers that reads `WINDOW` sub-tokens: short words and single characters of ASCII, é, ß and
    some Cyrillic; all else is unknown to it."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from tokenizers.models import WordPiece
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    known = f"{LETTERS}éßмосква.,;:!?'\"()-_/\\{{}}[]<>=+*&%$#@|"
    words = "the of and in is was a to word harbour ferry bridge query passage".split()
    pieces = dict.fromkeys([*special, *words, *known, *(f"##{character}" for character in known)])
    tokenizer = Tokenizer(WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    backbone = folder / "backbone"
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=WINDOW,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(backbone)
    torch.set_num_threads(1)  # on a busy machine, threads of so small a model would wait for one another
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=WINDOW,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(backbone)
    modules = [Transformer(str(backbone)), Pooling(32, pooling_mode="mean")]
    model = SentenceTransformer(modules=modules, prompts=prompts or {}, device="cpu")
    model.save(str(folder / "tiny"))
    return folder / "tiny"
