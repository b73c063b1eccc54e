"""The default search of a folder that mixes notes, records and code: by meaning and by names."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.models import DEFAULT_MODEL
from slimdex.retrieval.encoders.opening import open_encoder
from tests.mixed_folder import documents, queries


@pytest.mark.slow
def test_names_come_first_and_paraphrases_in_ten(tmp_path: Path) -> None:
    """Paraphrases share few words with their notes, misspelt names share none."""
    encoder = open_encoder(DEFAULT_MODEL)
    with Collection.create(tmp_path / "x.index", encoder, passages="off") as made:
        made.add([*documents()])
        places, answers = dict[str, int](), dict[str, str]()
        for name, query, answer in queries():
            found = [hit.id for hit in made.search(query, 10)]
            places[name] = found.index(answer) if answer in found else 10
            answers[name] = answer
    names = {name: place for name, place in places.items() if name.startswith("name:")}
    meanings = [place for name, place in places.items() if name.startswith("meaning:")]
    # Other passages call the functions.
    functions = {name for name in names if answers[name].startswith("code/")}
    assert {name for name, place in names.items() if place} <= functions
    assert max(names.values()) < 3
    assert sum(place < 10 for place in meanings) >= 0.9 * len(meanings)
