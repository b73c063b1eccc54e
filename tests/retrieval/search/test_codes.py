"""The default finds a code or a name in a text, however one asks and among how many texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.identifiers import FORMS
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import Encoder
from slimdex.retrieval.encoders.opening import open_encoder
from tests.chance import CHANCE, sweep

WHAT = ["The pump timed out.", "The door is open.", "No pressure in the boiler.", "Low battery."]
HELP = ["Call a technician.", "Restart the device.", "Clean the filter.", "Wait ten minutes."]
SYLLABLES = ["wo", "jcie", "cho", "wska", "szcz", "okon", "tar", "mu", "kher", "berg"]
KINDS: dict[str, Callable[[str], str]] = {
    "error": "E{}".format,
    "cve": "CVE-2016-{}".format,
    "invoice": "202{}".format,
    "part": "BQ-{}-D".format,
    "version": lambda number: f"{number[0]}.{number[1:3]}.{number[3:]}",
    "amount": lambda number: f"${number[:2]},{number[2:]}.50",
    "function": lambda number: f"strict_{''.join(map('abcdefghij'.__getitem__, map(int, number)))}",
    "surname": lambda number: f"Maria {''.join(SYLLABLES[int(n)] for n in number).capitalize()}",
    "acronym": lambda number: f"m{''.join(map('BDFGKLMNPR'.__getitem__, map(int, number[1:])))}",
    "name": lambda number: (
        f"{''.join(map('bdfgklmnpr'.__getitem__, map(int, number)))}".capitalize()
    ),
}
"""Kinds of codes, made of five digits."""
LONG = "Hello, can you tell me who of us knows {}, and is this why the filter of my device is open?"
ASKED = 40


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    return open_encoder("all-MiniLM-L6-v2")


def codes(kind: str, count: int) -> list[str]:
    """Different codes of a kind."""
    numbers = np.random.default_rng(0).permutation(90_000)[:count] + 10_000
    return [KINDS[kind](f"{number}") for number in numbers.tolist()]


def messages(kind: str, count: int) -> Iterator[Document]:
    """Texts that begin with a code, and whose ids are numbers."""
    for number, code in enumerate(codes(kind, count)):
        text = f"{code}. {WHAT[number % 4]} {HELP[number // 4 % 4]}"
        yield Document(str(number), text)


CASES = [
    *product(["error", "cve", "invoice", "part", "version", "surname", "name"], [4, 40, 400]),
    ("acronym", 40),
    ("amount", 400),
    ("function", 400),
    ("error", CHANCE.count(20_000, 800)),
]


@sweep
@pytest.mark.parametrize(("kind", "count"), CHANCE.sample(CASES, 4))
def test_a_code_in_the_text_comes_first(
    kind: str, count: int, minilm: Encoder, tmp_path: Path
) -> None:
    documents = [*messages(kind, count)]
    asked = np.random.default_rng(1).permutation(count)[:ASKED].tolist()
    names = codes(kind, count)
    with Collection.create(tmp_path / "x.index", minilm) as collection:
        collection.add(documents)
        for form in (*FORMS, LONG):
            queries = [form.format(names[number]) for number in asked]
            hits = collection.search_many(queries, 1)
            first = [found[0].id == str(n) for found, n in zip(hits, asked, strict=True)]
            assert np.mean(first) >= 0.98, form
