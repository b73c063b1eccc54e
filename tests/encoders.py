"""Encoders for tests: both compute, neither is a stand-in that returns what it is told."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from slimdex.indexes.arrays import Matrix, as_matrix


class WordEncoder:
    """A bag of words: each word is a fixed random direction, a text the sum of its words.

    It needs no torch, so that the many processes of the crash tests start fast.
    """

    def __init__(self, dim: int = 48) -> None:
        self.dim = dim
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> Matrix:
        self.encoded.extend(texts)
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(out, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()) or [""]:
                row += direction(word, self.dim)
        return out

    def spec(self) -> dict[str, Any]:
        return {"type": "words", "dim": self.dim}


class Rotated(WordEncoder):
    """The same bag of words in other axes."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        axes = np.linalg.qr(np.random.default_rng(0).normal(size=(self.dim, self.dim)))[0]
        return as_matrix(super().encode(texts) @ axes)

    def spec(self) -> dict[str, Any]:
        return {"type": "rotated", "dim": self.dim}


class ReadingEncoder(WordEncoder):
    """A bag of words that reads so many tokens of a text and no more: its words and two others."""

    def __init__(self, dim: int = 48, max_length: int = 16) -> None:
        super().__init__(dim)
        self.max_length = max_length

    def encode(self, texts: Sequence[str]) -> Matrix:
        found = super().encode([self._read(text) for text in texts])
        self.encoded[len(self.encoded) - len(texts) :] = texts
        return found

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        return [2 + len(re.findall(r"\w+", text)) for text in texts]

    def spec(self) -> dict[str, Any]:
        return {"type": "words", "dim": self.dim, "max_length": self.max_length}

    def _read(self, text: str) -> str:
        words = [found.end() for found in re.finditer(r"\w+", text)]
        return text if len(words) <= self.max_length - 2 else text[: words[self.max_length - 3]]


@cache
def direction(word: str, dim: int) -> Matrix:
    """A word's own direction (dim,)."""
    rng = np.random.default_rng(zlib.crc32(word.encode()))
    drawn: Matrix = rng.standard_normal(dim).astype(np.float32)
    return drawn


def failing(encoder: WordEncoder, after: int) -> WordEncoder:
    """The encoder, which raises KeyboardInterrupt once it has encoded more texts than these."""
    whole = encoder.encode

    def encode(texts: Sequence[str]) -> Matrix:
        if len(encoder.encoded) > after:
            raise KeyboardInterrupt
        return whole(texts)

    encoder.encode = encode  # type: ignore[method-assign]
    return encoder


LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), "the", "cat", "dog", "rain"]
WIDTH, LAYERS, HEADS, POSITIONS = 32, 3, 4, 64


def make_tiny_bert(folder: Path, labels: int = 0) -> Path:
    """Save a BERT of three layers and 32 dimensions with random weights and its tokenizer.

    With labels, it has a head that scores pairs. Written without torch, whose import takes seconds.
    """
    make_tokenizer(folder)
    inner = _BERT["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings": (len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings": (2, WIDTH),
        "pooler.dense": (WIDTH, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{i}." for i in range(LAYERS)):
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}attention.{name}"] = (WIDTH, WIDTH)
        shapes |= {f"{layer}intermediate.dense": (inner, WIDTH)}
        shapes |= {f"{layer}output.dense": (WIDTH, inner)}
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    if labels:
        shapes = {f"bert.{name}": shape for name, shape in shapes.items()}
        norms = [f"bert.{name}" for name in norms]
        shapes["classifier"] = (labels, WIDTH)

    # Larger than usual: small random weights make all texts alike.
    rng = np.random.default_rng(3)
    weights = dict[str, Matrix]()
    for name, shape in shapes.items():
        weights[f"{name}.weight"] = rng.normal(0, 0.08, shape).astype(np.float32)
        if "embeddings" not in name:
            weights[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    for name in norms:
        weights[f"{name}.weight"] = np.ones(WIDTH, np.float32)
        weights[f"{name}.bias"] = np.zeros(WIDTH, np.float32)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = _BERT | {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification" if labels else "BertModel"],
        "vocab_size": len(VOCABULARY),
        "hidden_act": "gelu",
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "id2label": {i: str(i) for i in range(labels)},
        "dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def make_tiny_model(architecture: str, folder: Path, padding_side: str = "right") -> Path:
    """Save a model of an architecture, three layers and 32 dimensions, with random weights."""
    import torch
    import transformers

    make_tokenizer(folder, architecture, padding_side)
    torch.manual_seed(3)
    config_class, model_class, options = ARCHITECTURES[architecture]
    config = getattr(transformers, config_class)(vocab_size=len(VOCABULARY), **options)
    model = getattr(transformers, model_class)(config)
    with torch.no_grad():  # as they are, small random weights make all texts alike
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(4.0)
    model.save_pretrained(folder)
    return folder


def make_tokenizer(folder: Path, architecture: str = "bert", padding_side: str = "right") -> None:
    """Save a tokenizer of words and letters; decoders and T5 get no special tokens at the start."""
    from tokenizers import BertWordPieceTokenizer
    from tokenizers.processors import TemplateProcessing

    vocab = {token: i for i, token in enumerate(VOCABULARY)}
    tokenizer = BertWordPieceTokenizer(vocab=vocab)._tokenizer
    if architecture == "gpt2":
        tokenizer.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    if architecture == "t5":
        ending = [("[SEP]", vocab["[SEP]"])]
        tokenizer.post_processor = TemplateProcessing(single="$A [SEP]", special_tokens=ending)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "eos_token": "[SEP]",
        "mask_token": "[MASK]",
        "padding_side": padding_side,
        "model_max_length": POSITIONS,
    }
    if architecture != "gpt2":
        settings["pad_token"] = "[PAD]"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


_BERT = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
    "max_position_embeddings": POSITIONS,
}
_FROM_PAD = _BERT | {"max_position_embeddings": POSITIONS + 2, "pad_token_id": 1}
_DEBERTA = _BERT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
ARCHITECTURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertModel", _BERT),
    "roberta": ("RobertaConfig", "RobertaModel", _FROM_PAD),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRobertaModel", _FROM_PAD),
    "camembert": ("CamembertConfig", "CamembertModel", _FROM_PAD),
    "data2vec-text": ("Data2VecTextConfig", "Data2VecTextModel", _FROM_PAD),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertModel",
        {
            "dim": WIDTH,
            "n_layers": LAYERS,
            "n_heads": HEADS,
            "hidden_dim": 64,
            "max_position_embeddings": POSITIONS,
        },
    ),
    "albert": ("AlbertConfig", "AlbertModel", _BERT | {"embedding_size": 16}),
    "deberta": ("DebertaConfig", "DebertaModel", _DEBERTA),
    "deberta-v2": ("DebertaV2Config", "DebertaV2Model", _DEBERTA | {"position_buckets": 16}),
    "t5": (
        "T5Config",
        "T5EncoderModel",
        {
            "d_model": WIDTH,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": LAYERS,
            "num_heads": HEADS,
            "relative_attention_max_distance": 20,
        },
    ),
    "xlm": (
        "XLMConfig",
        "XLMModel",
        {
            "emb_dim": WIDTH,
            "n_layers": LAYERS,
            "n_heads": HEADS,
            "max_position_embeddings": POSITIONS,
            "pad_index": 0,
        },
    ),
    "mpnet": ("MPNetConfig", "MPNetModel", _FROM_PAD),
    "squeezebert": (
        "SqueezeBertConfig",
        "SqueezeBertModel",
        _BERT
        | {"embedding_size": WIDTH}
        | {f"{part}_groups": 2 for part in ("q", "k", "v", "intermediate", "output")},
    ),
    "electra": ("ElectraConfig", "ElectraModel", _BERT | {"embedding_size": 16}),
    "mobilebert": (
        "MobileBertConfig",
        "MobileBertModel",
        _BERT | {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    ),
    "layoutlm": ("LayoutLMConfig", "LayoutLMModel", _BERT),
    "gpt2": (
        "GPT2Config",
        "GPT2Model",
        {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS},
    ),
}
"""Architecture -> names of its configuration and model in transformers, and small sizes."""
