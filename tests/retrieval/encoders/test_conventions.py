"""Conventions of well-known encoders, each on random weights of its architecture.

Poolings, heads and prompts are those of the published folders, which sentence-transformers writes
here; slimdex gives the same vectors as that library.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.base import encode_queries
from slimdex.retrieval.encoders.opening import encoder_from_spec
from slimdex.retrieval.encoders.runtimes.quick_runtime import quick_start
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder
from tests.encoders import HEADS, LAYERS, POSITIONS, VOCABULARY, WIDTH, make_tokenizer

st = pytest.importorskip("sentence_transformers", reason="the oracle is missing")

QUERIES = ["the cat", "rain and the dog", "a longer question about rain"]
DOCUMENTS = ["the rain the dog the cat and a longer text", "the cat", "dog"]
"""Beside the first, the others are padded by more than a window of local attention."""
COMMON = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 0,
}
DECODER = COMMON | {"num_key_value_heads": 2, "head_dim": 8}


@dataclass(frozen=True)
class Convention:
    """Contents of a model's folder.

    Attributes
    ----------
    network : name of its class in transformers, without "Model", and its configuration.
    written : prompts for queries and documents, as the folder states them.
    given : the same as its card states them, for folders without; given as options.
    dense : widths of the layers after the pooling.
    tokens : tokenizer; t5's ends texts by a token, and adds none at the start.
    """

    network: tuple[str, dict[str, Any]]
    pooling: str | tuple[str, ...]
    written: dict[str, str] = field(default_factory=dict)
    given: tuple[str, str] | None = None
    dense: tuple[int, ...] = ()
    tokens: tuple[str, str] = ("bert", "right")


CONVENTIONS = {
    "E5": Convention(("Bert", COMMON), "mean", given=("query: ", "passage: ")),
    "BGE": Convention(
        ("Bert", COMMON),
        "cls",
        given=("Represent this sentence for searching relevant passages: ", ""),
    ),
    "Qwen3-Embedding": Convention(
        ("Qwen3", DECODER),
        "lasttoken",
        {
            "query": "Instruct: Given a web search query, retrieve relevant passages that answer "
            "the query\nQuery:",
            "document": "",
        },
        tokens=("t5", "left"),
    ),
    "EmbeddingGemma": Convention(
        (
            "Gemma3Text",
            DECODER
            | {
                "use_bidirectional_attention": True,
                "sliding_window": 8,
                "query_pre_attn_scalar": 8,
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            },
        ),
        "mean",
        {
            "query": "task: search result | query: ",
            "document": "title: none | text: ",
            "Clustering": "task: clustering | query: ",
        },
        dense=(96, WIDTH),
    ),
    "Nomic": Convention(
        ("NomicBert", COMMON), "mean", given=("search_query: ", "search_document: ")
    ),
    "ModernBERT": Convention(
        (
            "ModernBert",
            COMMON | {"local_attention": 8, "cls_token_id": 2, "sep_token_id": 3},
        ),
        "mean",
        given=("search_query: ", "search_document: "),
    ),
}


def make_network(folder: Path, convention: Convention) -> None:
    """Save random weights and a tokenizer."""
    import torch
    import transformers

    make_tokenizer(folder, *convention.tokens)
    torch.manual_seed(5)
    name, options = convention.network
    config = getattr(transformers, f"{name}Config")(**options)
    model = getattr(transformers, f"{name}Model")(config)
    with torch.no_grad():  # as they are, small random weights make all texts alike
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(4.0)
    model.save_pretrained(folder)


def sentence_transformer(
    folder: Path, convention: Convention, truncate_dim: int | None = None
) -> Any:
    """The library's own model of it, which it also saves in the folder `whole`."""
    import torch
    from sentence_transformers import models

    network = models.Transformer(str(folder), max_seq_length=48)
    torch.manual_seed(7)
    modules: list[Any] = [network, models.Pooling(WIDTH, pooling_mode=convention.pooling)]
    width = modules[1].get_embedding_dimension()
    for wider in convention.dense:
        modules.append(
            models.Dense(width, wider, bias=False, activation_function=torch.nn.Identity())
        )
        width = wider
    modules.append(models.Normalize())
    made = st.SentenceTransformer(
        modules=modules, prompts=convention.written, truncate_dim=truncate_dim, device="cpu"
    )
    made.save(str(folder / "whole"))
    return made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the library, whose names move
@pytest.mark.parametrize("name", CONVENTIONS)
def test_vectors_are_those_of_sentence_transformers(name: str, tmp_path: Path) -> None:
    convention = CONVENTIONS[name]
    make_network(tmp_path, convention)
    library = sentence_transformer(tmp_path, convention)
    query, document = convention.given or (None, None)
    encoder = TransformerEncoder(
        str(tmp_path / "whole"), precision="fp32", query_prompt=query, document_prompt=document
    )
    if convention.given is None:
        queries, documents = library.encode_query(QUERIES), library.encode_document(DOCUMENTS)
    else:
        queries = library.encode([convention.given[0] + text for text in QUERIES])
        documents = library.encode([convention.given[1] + text for text in DOCUMENTS])
    by_torch = name == "EmbeddingGemma"  # OpenVINO can't convert its trace
    assert encoder.runtime == f"{'torch' if by_torch else 'OpenVINO'} on cpu, fp32"
    assert furthest(encoder.encode_queries(QUERIES), queries) <= 1e-5
    assert furthest(encoder.encode(DOCUMENTS), documents) <= 1e-5
    for text, vector in zip(QUERIES, queries, strict=True):  # alone, without padding
        assert furthest(encoder.encode_queries(text), vector[None]) <= 1e-5
    plain = library.encode(QUERIES)
    assert furthest(queries, plain) > 1e-3, "the prompt counts"


@pytest.mark.filterwarnings("ignore")  # of the library, whose names move
@pytest.mark.parametrize("prompts", [{"query": "the cat "}, {"query": "the ", "document": "dog "}])
@pytest.mark.parametrize("kept", [None, 5])
def test_static_vectors_with_prompts_and_fewer_dimensions(
    prompts: dict[str, str], kept: int | None, tmp_path: Path
) -> None:
    from sentence_transformers import models
    from tokenizers import Tokenizer

    make_tokenizer(tmp_path, "bert", "right")
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    weights = np.random.default_rng(2).normal(size=(len(VOCABULARY), 9)).astype(np.float32)
    library = st.SentenceTransformer(
        modules=[models.StaticEmbedding(tokenizer, embedding_weights=weights)],
        prompts=prompts,
        default_prompt_name="query",
        truncate_dim=kept,
        device="cpu",
    )
    library.save(str(tmp_path / "theirs"))
    encoder = StaticEncoder(tmp_path / "theirs")
    saved = encoder.save(tmp_path / "ours")
    for same in (encoder, encoder_from_spec(encoder.spec()), saved):
        assert same.dim == (kept or 9)
        assert furthest(encode_queries(same, QUERIES), library.encode_query(QUERIES)) <= 1e-5
        assert furthest(same.encode(DOCUMENTS), library.encode_document(DOCUMENTS)) <= 1e-5
    again = st.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    assert furthest(again.encode_query(QUERIES), library.encode_query(QUERIES)) <= 1e-5
    other = StaticEncoder(tmp_path / "theirs", query_prompt="dog ")
    theirs = library.encode(QUERIES, prompt="dog ")
    assert furthest(other.encode_queries(QUERIES), theirs) <= 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("starts", [quick_start, nullcontext])
def test_fewer_dimensions_are_kept_as_the_library_keeps_them(
    starts: Callable[[], AbstractContextManager[None]], tmp_path: Path
) -> None:
    width = 7
    make_network(tmp_path, CONVENTIONS["BGE"])
    library = sentence_transformer(tmp_path, CONVENTIONS["BGE"], truncate_dim=width)
    with starts():
        encoder = TransformerEncoder(str(tmp_path / "whole"), precision="fp32")
        ours = encoder.encode(DOCUMENTS)
    assert encoder.dim == width
    assert encoder.spec()["head"] == ["Normalize", f"Truncate {width}"]
    theirs = library.encode_document(DOCUMENTS)
    assert furthest(ours, theirs) <= 1e-5
    assert furthest(encoder_from_spec(encoder.spec()).encode(DOCUMENTS), theirs) <= 1e-5
    assert furthest(torch_vectors(encoder, DOCUMENTS), theirs) <= 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "modes", ["weightedmean", "mean_sqrt_len_tokens", ("cls", "mean"), ("mean", "lasttoken", "max")]
)
def test_poolings_are_those_of_the_library(modes: str | tuple[str, ...], tmp_path: Path) -> None:
    dense = (10,) if modes == ("cls", "mean") else ()
    convention = replace(CONVENTIONS["BGE"], pooling=modes, dense=dense)
    make_network(tmp_path, convention)
    theirs = sentence_transformer(tmp_path, convention).encode(DOCUMENTS)
    for starts in (quick_start, nullcontext):
        with starts():
            encoder = TransformerEncoder(str(tmp_path / "whole"), precision="fp32")
            assert furthest(encoder.encode(DOCUMENTS), theirs) <= 1e-5
    assert furthest(encoder_from_spec(encoder.spec()).encode(DOCUMENTS), theirs) <= 1e-5
    assert furthest(torch_vectors(encoder, DOCUMENTS), theirs) <= 1e-5
    plain = TransformerEncoder(str(tmp_path / "whole"), pooling="mean", precision="fp32")
    assert encoder.dim != plain.dim or furthest(plain.encode(DOCUMENTS), theirs) > 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "modes"),
    [
        ("BGE", ("cls", "mean")),
        ("BGE", ("weightedmean", "mean_sqrt_len_tokens", "max")),
        ("Qwen3-Embedding", "mean"),
        ("Qwen3-Embedding", "lasttoken"),
    ],
)
def test_prompts_that_are_not_pooled(
    name: str, modes: str | tuple[str, ...], tmp_path: Path
) -> None:
    prompts = {"query": "the rain: ", "document": "dog "}
    convention = replace(CONVENTIONS[name], pooling=modes, written=prompts, given=None)
    make_network(tmp_path, convention)
    library = sentence_transformer(tmp_path, convention)
    pooled = TransformerEncoder(str(tmp_path / "whole"), precision="fp32")
    library.set_pooling_include_prompt(False)
    library.save(str(tmp_path / "whole"))
    encoder = TransformerEncoder(str(tmp_path / "whole"), precision="fp32")
    queries, documents = library.encode_query(QUERIES), library.encode_document(DOCUMENTS)
    for same in (encoder, encoder_from_spec(encoder.spec())):
        assert furthest(encode_queries(same, QUERIES), queries) <= 1e-5
        assert furthest(same.encode(DOCUMENTS), documents) <= 1e-5
        assert furthest(same.encode(DOCUMENTS[1]), documents[1:2]) <= 1e-5
    if modes != "lasttoken":
        assert furthest(pooled.encode(DOCUMENTS), documents) > 1e-3
    plain = TransformerEncoder(str(tmp_path / "whole"), document_prompt="", precision="fp32")
    assert furthest(plain.encode(DOCUMENTS), library.encode(DOCUMENTS)) <= 1e-5


def torch_vectors(encoder: TransformerEncoder, texts: list[str]) -> Matrix:
    """Vectors of the network in torch, of one text at a time."""
    import torch

    rows = list[Matrix]()
    for text in texts:
        ids = torch.tensor([encoder.tokenizer.encode(text).ids])
        with torch.inference_mode():
            rows.append(encoder.network()(ids, torch.ones_like(ids)).numpy())
    return np.concatenate(rows)


def furthest(one: Matrix, other: Matrix) -> float:
    return float(np.abs(one - other).max())
