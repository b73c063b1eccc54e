"""The map of documents: its places, names and colours, and the page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.exporting.document_map import (
    NO_VALUE,
    OTHERS,
    DocumentMap,
    colourings,
    write_map,
)
from slimdex.retrieval.exporting.placing import names_of_clusters, place, regions_of
from tests.browsing import DESKTOP, PHONE, check_accessible, launched, watched
from tests.encoders import WordEncoder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = '</script><script>document.title="1"</script><img src=x onerror="document.title=1">'
TOPICS = ("cat dog rabbit", "stock bond market", "rain snow wind")


def grouped(count: int, groups: int, dim: int = 24) -> tuple[Matrix, Rows]:
    """Unit rows around some directions, and the number of each row's direction."""
    rng = np.random.default_rng(0)
    group = rng.integers(groups, size=count)
    X = rng.normal(size=(groups, dim))[group] + rng.normal(size=(count, dim)) * 0.3
    return normalize_rows(X.astype(np.float32)), group


@pytest.mark.slow
def test_what_is_near_stays_near() -> None:
    X, group = grouped(600, 5)
    places = place(X)
    assert (places.min(), places.max()) == (0, 1)
    far = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(far, np.inf)
    assert (group[far.argmin(axis=1)] == group).mean() > 0.98
    assert np.array_equal(place(X), places)
    regions = regions_of(places, 5)
    assert (np.diff(np.bincount(regions)) <= 0).all()
    assert [len(set(regions[group == own])) for own in range(5)] == [1] * 5


@pytest.mark.parametrize("count", [1, 2, 19])
def test_few_rows_are_placed(count: int) -> None:
    X, _ = grouped(count, 1)
    places = place(X)
    assert places.shape == (count, 2)
    assert np.isfinite(places).all()


def test_names_are_what_sets_texts_apart() -> None:
    """Words of all texts come after those of a cluster; forms of a word count together."""
    texts = [f"the thing and a {'cats' if i % 2 else 'stock'} with it" for i in range(18)]
    texts[1] = texts[1].replace("cats", "cat")
    names = names_of_clusters(texts, np.arange(18) % 2)
    assert [name.split(", ")[0] for name in names] == ["stock", "cats"]


def test_columns_with_values_that_repeat_have_colours() -> None:
    rows = [
        {
            "kind": "abc"[i % 3],
            "many": i % 20,
            "tag": f"t{i % 12}",
            "day": date(2000, 1, 1 + i % 28),
            "unique": f"u{i}",
        }
        for i in range(60)
    ]
    rows[0] = {}
    found = {each.name: each for each in colourings(rows)}
    assert [*found] == ["kind", "many", "tag", "day"]
    assert found["kind"].labels == ["b", "c", "a", NO_VALUE]
    assert found["kind"].codes[:4] == [3, 0, 1, 2]
    assert found["tag"].labels[-2:] == [OTHERS, NO_VALUE]
    assert found["many"].ordered
    assert len(found["many"].labels) == 7
    assert found["many"].labels[:3] == ["0 – 2", "3 – 5", "6 – 9"]
    assert found["many"].codes[1:8] == [0, 0, 1, 1, 1, 2, 2]
    assert found["day"].labels[0] == "2000-01-01 – 2000-01-03"


def documents(count: int) -> list[Document]:
    rng = np.random.default_rng(0)
    made = []
    for i in range(count):
        topic = TOPICS[i % 3].split()
        text = " ".join(rng.choice(topic, 6)) + f" n{i}"
        made.append(Document(f"d{i}", text, metadata={"<b>kind": TOPICS[i % 3][:4], "year": i}))
    made[4] = Document("d4 <i>", HOSTILE + " cat dog", HOSTILE[:50], {"<b>kind": HOSTILE})
    return made


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[DocumentMap, Path]:
    folder = tmp_path_factory.mktemp("map")
    with Collection.create(folder / "a <b> & c", WordEncoder()) as collection:
        collection.add(documents(240))
        page = folder / "map.html"
        return write_map(collection, page), page


@pytest.mark.slow
def test_the_map_tells_what_is_on_it(
    written: tuple[DocumentMap, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, page = written
    assert (made.documents, made.total, len(made.clusters)) == (240, 240, 2)
    assert page.stat().st_size < 60_000
    assert "<img" not in page.read_text()
    with Collection.open(page.parent / "a <b> & c", WordEncoder()) as collection:
        again = write_map(collection, tmp_path / "again.html")
        assert (tmp_path / "again.html").read_bytes() == page.read_bytes()
        with pytest.raises(InputError, match="expected a new file"):
            write_map(collection, again.path)
        monkeypatch.setattr("slimdex.retrieval.exporting.document_map.MOST_DOCUMENTS", 100)
        sample = write_map(collection, tmp_path / "some.html", where="year < 200")
        assert (sample.documents, sample.total) == (100, 199)
        with pytest.raises(InputError, match="no documents where"):
            write_map(collection, tmp_path / "none.html", where="year < 0")
        assert not (tmp_path / "none.html").exists()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from launched()


@contextmanager
def opened(browser: Browser, file: Path, **options: Any) -> Iterator[Page]:
    """The page, once it is drawn."""
    with watched(browser, file.as_uri(), **options) as page:
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-ready]")
        yield page


def colours(page: Page) -> int:
    """Number of different colours on the map."""
    return int(
        page.evaluate(
            """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
            const { width, height } = canvas, all = paint.getImageData(0, 0, width, height).data;
            done(new Set(new Uint32Array(all.buffer)).size); })))"""
        )
    )


@pytest.mark.slow
def test_documents_are_found_and_coloured(
    browser: Browser, written: tuple[DocumentMap, Path]
) -> None:
    made, file = written
    with opened(browser, file, **DESKTOP) as page:
        assert page.title() == "a <b> & c: a map of the documents"
        assert page.locator("#count").inner_text() == "240 documents"
        legend = page.locator("#legend button")
        shown = [text.split("\n")[0] for text in legend.all_inner_texts()]
        assert shown == [*made.clusters]
        assert colours(page) > 3
        page.get_by_label("Colour by").select_option("<b>kind")
        assert legend.count() == 4
        page.get_by_label("Colour by").select_option("year")
        assert legend.count() == 7  # six ranges and no value
        legend.first.click()
        assert legend.first.get_attribute("aria-pressed") == "true"
        page.get_by_label("Find words").fill("STOCK n73")
        assert page.locator("#found").inner_text() == "1 found"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        tip = page.locator("#tip")
        assert "d73" in tip.inner_text()
        assert "stock" in tip.inner_text()
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        box = page.locator("#map").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert "d73" in tip.inner_text()  # which the list has brought to the middle
        page.get_by_label("Find words").fill("onerror")
        page.locator("#hits button").click()
        assert HOSTILE in tip.inner_text()
        assert page.locator("img, #tip script").count() == 0
        assert page.title() == "a <b> & c: a map of the documents"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "dark"), (DESKTOP, "light")], ids=["phone", "desktop"]
)
def test_nobody_is_left_out(
    browser: Browser, written: tuple[DocumentMap, Path], size: Any, scheme: Any
) -> None:
    options = {**size, "color_scheme": scheme, "bypass_csp": True}
    with opened(browser, written[1], **options) as page:
        page.get_by_label("Find words").fill("cat")
        page.locator("#hits button").first.click()
        check_accessible(page)
