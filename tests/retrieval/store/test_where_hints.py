"""The condition that an error message suggests works and finds the expected documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time

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
        "since": datetime(2022, 5, 3, 10),
        "price": "$58.00",
        "cost": "1.058,50 EUR",
        "sum": "$1,058.50",
        "zip": "01234",
        "rate": "0.5",
        "n": 12,
        "share": 0.25,
        "flag": True,
        "place": {"city": "Bonn"},
        "hour": time(9, 30),
        "sort of": "3 kg",
        "sold": "9/18/2015 19:39",
        "bought": "28/05/16",
        "packed": "2015/9/18",
        "seen": "7-5-2015",
        "rating": "1/2/2015",
        "made": "5 May 2015",
    },
    {
        "id": "2",
        "text": "coffee",
        "tags": ["bean"],
        "sizes": [7],
        "day": date(2024, 6, 1),
        "since": datetime(2024, 6, 1),
        "price": "$8.50",
        "cost": "7,00 EUR",
        "sum": "$60.00",
        "zip": "99",
        "rate": "2",
        "n": 120,
        "share": 3.5,
        "flag": False,
        "place": {"city": "Rom"},
        "hour": time(19),
        "sort of": "4 kg",
        "sold": "1/7/2016 8:00",
        "bought": "1/12/16",
        "packed": "2016/10/7",
        "seen": " 1-6-2016",
        "rating": "high",
        "made": "7 June 2016",
    },
]
ONE, TWO, BOTH = ["1"], ["2"], ["1", "2"]
MEANT = {
    "tags = 'seed'": ONE,
    "tags != 'seed'": TWO,
    "'bean' = TAGS": TWO,
    "tags IN ('seed', 'bean')": BOTH,
    "tags NOT IN ('seed', 'x')": TWO,
    "tags LIKE '%gre%'": ONE,
    "tags = 7": [],
    "sizes > 6": TWO,
    "sizes < 2": ONE,
    "sizes = 5": ONE,
    "sizes = '5 cm'": ONE,
    "sizes IN ('7', '8')": TWO,
    "sizes LIKE 7": TWO,
    "tags > 7": BOTH,
    "zip LIKE 99": TWO,
    "day NOT LIKE 2022": TWO,
    "day > 2023": TWO,
    "2023 > day": ONE,
    "day = '2022'": ONE,
    "day IN (2022, 2024)": BOTH,
    "day NOT IN (2022, 2023)": TWO,
    "day BETWEEN 2023 AND 2024": TWO,
    "day NOT BETWEEN 2023 AND 2024": ONE,
    "day LIKE '2022%'": ONE,
    "day LIKE '%-06-%'": TWO,
    "day >= '2024-06'": TWO,
    "day >= 20240601": TWO,
    "since > 2023": TWO,
    "since < '2023'": ONE,
    "price < 60": BOTH,
    "PRICE < 20": TWO,
    "price = 58": ONE,
    "price BETWEEN 50 AND 60": ONE,
    "cost > 1000": ONE,
    "cost = 7": TWO,
    "sum < 100": TWO,
    "zip > 100": ONE,
    "rate < 1": ONE,
    '"sort of" > 3': TWO,
    "text = 7": [],
    "n = '$12'": ONE,
    "n IN ('12 kg', '120 kg')": BOTH,
    "n LIKE '12_'": TWO,
    "share > '1 %'": TWO,
    "flag = 'ja'": ONE,
    "sold > '2016-01-01'": TWO,
    "'2016-01-01' > sold": ONE,
    "SOLD NOT BETWEEN '2016-01-01' AND '2016-12-31'": ONE,
    "sold < '12/31/2015'": BOTH,
    "n > 1 AND bought >= '2016-06-01'": TWO,
    "packed < '2016-10-01'": ONE,
    "seen < '2016-01-01'": ONE,
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
