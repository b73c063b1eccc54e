"""Tokenizer of a model's folder, read with the library `tokenizers` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError

from ...folder_checks import read_json
from ...tokens import GROUP_CHARACTERS

SETTINGS = ("special_tokens_map.json", "tokenizer_config.json")
"""Files of a tokenizer's settings; the later one counts."""
ROLES = ("unk", "sep", "cls", "pad", "mask")
"""Special tokens of BERT."""
WORD_PIECE = ("bert", "distilbert", "electra")
"""Model types whose ``vocab.txt`` is of BERT's WordPiece."""
WORD_PIECE_CLASSES = (
    *("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"),
    *("ElectraTokenizer", "ElectraTokenizerFast"),
)
"""Classes of transformers for BERT's WordPiece."""


def folder_tokenizer(folder: Path) -> tuple[Any, float] | None:
    """Tokenizer and its maximum length in tokens; None if only transformers can read it.

    Raises `InputError` if a file is malformed.
    """
    settings = dict[str, Any]()
    for path in (folder / name for name in SETTINGS):
        settings |= read_json(path) if path.is_file() else {}
    if (folder / "tokenizer.json").is_file():
        tokenizer = _read(folder / "tokenizer.json")
    elif _is_word_piece(folder, settings):
        tokenizer = _word_piece(folder / "vocab.txt", settings)
    else:
        return None
    side = settings.get("truncation_side", "right")
    tokenizer.enable_truncation(GROUP_CHARACTERS, direction=side)
    longest = settings.get("model_max_length")
    return tokenizer, longest if isinstance(longest, int | float) else float("inf")


def _read(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{path}: {error}; expected a tokenizer of the library") from error


def _is_word_piece(folder: Path, settings: dict[str, Any]) -> bool:
    if not (folder / "vocab.txt").is_file():
        return False
    model_type = read_json(folder / "config.json").get("model_type")
    plain = settings.get("tokenizer_class", WORD_PIECE_CLASSES[0]) in WORD_PIECE_CLASSES
    return plain and model_type in WORD_PIECE


def _word_piece(path: Path, settings: dict[str, Any]) -> Any:
    """Build BERT's tokenizer from its vocabulary, a token a line."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    try:
        with path.open(encoding="utf-8") as file:
            vocabulary = {line.rstrip("\n"): i for i, line in enumerate(file)}
        unknown, separator, start, *others = (_token(settings, role) for role in ROLES)
        made = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
        made.normalizer = normalizers.BertNormalizer(
            handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
            strip_accents=settings.get("strip_accents"),
            lowercase=settings.get("do_lower_case", True),
        )
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        ends = ((token, vocabulary[token]) for token in (separator, start))
        made.post_processor = processors.BertProcessing(*ends)
        made.add_special_tokens(
            [unknown, separator, start, *(t for t in others if t in vocabulary)]
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: {error}; expected a vocabulary of BERT") from error
    return made


def _token(settings: dict[str, Any], role: str) -> str:
    found = settings.get(f"{role}_token") or f"[{role.upper()}]"
    return str(found["content"] if isinstance(found, dict) else found)
