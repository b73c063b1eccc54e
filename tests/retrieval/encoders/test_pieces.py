"""WordPieces: the ids of a real tokenizer, which reads each text as a whole."""

from __future__ import annotations

import pickle
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from slimdex import TransformerEncoder
from slimdex.retrieval.encoders.models import find_model
from slimdex.retrieval.encoders.pieces import TOGETHER, WordPieces

FRAGMENTS = [
    *("the", "Cat", "[MASK]", "[SEP]", "<mask>", "é", "İ", "ΑΣ", "猫", "ภาษา", "שלום", "हिन्दी"),
    *(" ", "  ", "\n", "\t", "\r\n", "\0", "\x0b", "\x1c", "\x85", "\xa0", "\u2003", "\u3000"),
    *("\u0301", "\u0338", "\u200d", "\ufeff", "।", "。", "_", "=", "##ing", "f(x)", "🙂"),
    "a" * 120,
]
TEXTS = st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join), max_size=4)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """The default model's, and a token with the spaces before it, as MPNet has one."""
    tokenizer = Tokenizer.from_file(str(find_model("all-MiniLM-L6-v2").folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    return tokenizer


@pytest.fixture(scope="module")
def pieces(tokenizer: Any) -> WordPieces:
    return WordPieces(deepcopy(tokenizer))


@given(texts=TEXTS)
def test_pieces_give_the_ids_of_the_whole(
    tokenizer: Any, pieces: WordPieces, texts: list[str]
) -> None:
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    for each in (pieces, pickle.loads(pickle.dumps(pieces))):
        ids, lengths = each.ids(texts)
        assert ids.tolist() == [*chain.from_iterable(expected)]
        assert lengths.tolist() == each.counts(texts) == [*map(len, expected)]


def test_more_pieces_than_are_tokenized_together(tokenizer: Any, pieces: WordPieces) -> None:
    text = " ".join(f"word{number}(x)" for number in range(3 * TOGETHER))
    assert pieces.counts([text]) == [len(tokenizer.encode(text, add_special_tokens=False).ids)]


def test_a_token_that_takes_the_spaces_after_it(tokenizer: Any) -> None:
    taking = deepcopy(tokenizer)
    taking.add_special_tokens([AddedToken("<end>", rstrip=True, normalized=False)])
    texts = ["a<end>", "<end> b\n<end>\nc", "<end>"]
    expected = [len(taking.encode(text, add_special_tokens=False).ids) for text in texts]
    assert WordPieces(taking).counts(texts) == expected


def test_a_tokenizer_that_reads_spaces_reads_the_whole_text() -> None:
    """As GPT's, whose tokens begin with the space before them."""
    vocabulary = {"a": 0, "b": 1, "\u0120": 2, "\u0120a": 3}
    tokenizer: Any = Tokenizer(models.BPE(vocabulary, [("\u0120", "a")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    ids, lengths = WordPieces(tokenizer).ids(["b a a", "a b"])
    assert (ids.tolist(), lengths.tolist()) == ([1, 3, 3, 0, 2, 1], [3, 3])


@pytest.fixture(scope="module")
def bert(tiny_bert: Path) -> TransformerEncoder:
    return TransformerEncoder(str(tiny_bert), max_length=16, document_prompt="the")


@given(texts=TEXTS)
def test_a_transformer_counts_what_it_reads(bert: TransformerEncoder, texts: list[str]) -> None:
    lengths = bert.encode_measured(texts)[1]
    assert bert.token_counts(texts) == lengths[:, 0].tolist()
