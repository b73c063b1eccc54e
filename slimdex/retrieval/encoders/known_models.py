"""Well-known small encoders, by short names, for `slimdex models` and `--model`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ENGLISH, MANY = "English", "many"
BEIR, MULTILINGUAL = "BEIR", "MTEB multilingual retrieval"
"""Measures: nDCG@10 times 100, averaged over 15 English sets or 18 multilingual ones."""
_GTE = "https://huggingface.co/thenlper/gte-small"
_ARCTIC = "https://huggingface.co/Snowflake/snowflake-arctic-embed-l"
_BGE_QUERY = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True)
class KnownModel:
    """A model of the hub, as its card describes it.

    Attributes
    ----------
    parameters : in millions.
    tokens : most tokens of a text.
    prompts : for queries and documents, for a folder that states none.
    score : published nDCG@10 times 100 by `measure`, as `source` states it; None if not verified.
    needs_torch : True if only the extra `torch` runs it.
    """

    hub_id: str
    licence: str
    parameters: int
    languages: str
    dimensions: int
    tokens: int
    prompts: tuple[str, str] = ("", "")
    score: float | None = None
    measure: str = BEIR
    source: str = ""
    needs_torch: bool = False

    @property
    def name(self) -> str:
        """Short name."""
        return self.hub_id.partition("/")[2]


_E5 = ("query: ", "passage: ")
_APACHE = "Apache-2.0"
_MODELS = (
    KnownModel(
        *("sentence-transformers/all-MiniLM-L6-v2", _APACHE, 22, ENGLISH, 384, 256),
        score=41.95,
        source=_GTE,
    ),
    KnownModel("intfloat/e5-small-v2", "MIT", 33, ENGLISH, 384, 512, _E5, 49.04, BEIR, _GTE),
    KnownModel("thenlper/gte-small", "MIT", 33, ENGLISH, 384, 512, score=49.46, source=_GTE),
    KnownModel(
        *("Snowflake/snowflake-arctic-embed-xs", _APACHE, 22, ENGLISH, 384, 512),
        score=50.15,
        source=_ARCTIC,
    ),
    KnownModel(
        *("Snowflake/snowflake-arctic-embed-s", _APACHE, 33, ENGLISH, 384, 512),
        score=51.98,
        source=_ARCTIC,
    ),
    KnownModel("BAAI/bge-small-en-v1.5", "MIT", 33, ENGLISH, 384, 512, (_BGE_QUERY, "")),
    KnownModel(
        *("Snowflake/snowflake-arctic-embed-m", _APACHE, 110, ENGLISH, 768, 512),
        score=54.90,
        source=_ARCTIC,
    ),
    KnownModel("intfloat/multilingual-e5-small", "MIT", 118, MANY, 384, 512, _E5),
    KnownModel(
        *("ibm-granite/granite-embedding-97m-multilingual-r2", _APACHE, 97, MANY, 384, 32_768),
        score=60.3,
        measure=MULTILINGUAL,
        source="https://arxiv.org/abs/2605.13521",
        needs_torch=True,
    ),
    KnownModel(
        *("Qwen/Qwen3-Embedding-0.6B", _APACHE, 596, MANY, 1024, 32_768),
        score=64.65,
        measure=MULTILINGUAL,
        source="https://codesota.com/tasks/text-embeddings",
        needs_torch=True,
    ),
)
KNOWN = {model.name: model for model in _MODELS}
"""Short name -> model."""
FOR_OTHER_LANGUAGES = "multilingual-e5-small"
"""Model to advise for languages other than English: it needs no extra."""


def known_model(name: str) -> KnownModel | None:
    """Find a model by its short name or hub id.

    >>> known_model("intfloat/e5-small-v2") is known_model("e5-small-v2")
    True
    """
    found = KNOWN.get(name.rpartition("/")[2])
    return found if found is not None and name in (found.name, found.hub_id) else None


def named_like(name: str) -> KnownModel | None:
    """Find the model that a folder or repository has the name of, such as a download or a copy.

    Likely enough for advice, not for prompts.

    >>> named_like("/models/e5-small-v2/").hub_id
    'intfloat/e5-small-v2'
    """
    return KNOWN.get(Path(name).name)


def known_prompts(name: str) -> tuple[str, str]:
    """Return the prompts of a known model for queries and documents, else none."""
    found = known_model(name)
    return ("", "") if found is None else found.prompts
