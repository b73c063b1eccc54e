"""The condition that an error message suggests works and finds the expected documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

import pytest

from slimdex.errors import InputError
from slimdex.retrieval.collection import Collection
from tests.encoders import WordEncoder

DOCUMENTS = [
    {
        "id": "1",
        "text": "tea",
        "tags": ["seed", "green"],
        "sizes": [1, 5],
        "day": date(2022, 5, 3),
        "price": "$58.00",
        "cost": "1.058,50 EUR",
        "sum": "$1,058.50",
        "rate": "0.5",
        "n": 12,
        "flag": True,
        "sort of": "3 kg",
        "sold": "9/18/2015 19:39",
        "bought": "28/05/16",
        "rating": "1/2/2015",
    },
    {
        "id": "2",
        "text": "coffee",
        "tags": ["bean"],
        "sizes": [7],
        "day": date(2024, 6, 1),
        "price": "$8.50",
        "cost": "7,00 EUR",
        "sum": "$60.00",
        "rate": "2",
        "n": 120,
        "flag": False,
        "sort of": "4 kg",
        "sold": "1/7/2016 8:00",
        "bought": "1/12/16",
        "rating": "high",
    },
]
ONE, TWO, BOTH = ["1"], ["2"], ["1", "2"]
MEANT = {
    "tags = 'seed'": ONE,
    "tags IN ('seed', 'bean')": BOTH,
    "tags NOT IN ('seed', 'x')": TWO,
    "tags LIKE '%gre%'": ONE,
    "sizes > 6": TWO,
    "day NOT LIKE 2022": TWO,
    "day > 2023": TWO,
    "day IN (2022, 2024)": BOTH,
    "day BETWEEN 2023 AND 2024": TWO,
    "day LIKE '2022%'": ONE,
    "day >= 20240601": TWO,
    "price < 60": BOTH,
    "price BETWEEN 50 AND 60": ONE,
    "cost > 1000": ONE,
    "sum < 100": TWO,
    "rate < 1": ONE,
    '"sort of" > 3': TWO,
    "n = '$12'": ONE,
    "n LIKE '12_'": TWO,
    "flag = 'ja'": ONE,
    "sold > '2016-01-01'": TWO,
    "SOLD NOT BETWEEN '2016-01-01' AND '2016-12-31'": ONE,
    "n > 1 AND bought >= '2016-06-01'": TWO,
}
UNREFUSED = {
    "sold = '1/7/2016 8:00'": TWO,
    "rating > '1/1/2015'": BOTH,
    "sold > 'x'": [],
    "day > '2023-01-01'": TWO,
    "try_strptime(sold, '%m/%d/%Y %H:%M') > '2016-01-01'": TWO,
}


@pytest.fixture(scope="module")
def drinks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    path = tmp_path_factory.mktemp("drinks") / "index"
    with Collection.create(path, WordEncoder()) as collection:
        collection.add(DOCUMENTS)
        yield collection


def refused(drinks: Collection, where: str) -> str:
    with pytest.raises(InputError) as error:
        drinks.get(where=where)
    return str(error.value)


@pytest.mark.parametrize("where", MEANT)
def test_what_a_hint_says_to_write_finds_what_was_meant(drinks: Collection, where: str) -> None:
    said = re.search(r"write (.+); expected a condition", refused(drinks, where))
    assert said is not None, refused(drinks, where)
    written = said[1].partition(" or NOT ")[0].partition(" (or ")[0]
    assert [each.id for each in drinks.get(where=written)] == MEANT[where]


@pytest.mark.parametrize("where", UNREFUSED)
def test_texts_that_are_compared_as_they_are(drinks: Collection, where: str) -> None:
    assert [each.id for each in drinks.get(where=where)] == UNREFUSED[where]
