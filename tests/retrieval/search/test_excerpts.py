"""The part of a text that answers is shown, not its beginning."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.documents import Hit
from slimdex.retrieval.search.excerpts import (
    LENGTH,
    beginning,
    nearest_by_words,
    nearest_passages,
    on_one_line,
    parts,
    word_places,
)
from tests.encoders import WordEncoder

FILLER = "Nothing in this sentence is of any interest to whoever reads about other matters. "


def hit(text: str, title: str = "") -> Hit:
    return Hit("id", 0.5, text, title)


def passages_near(
    encoder: WordEncoder, queries: list[str], hits: list[list[Hit]], most_parts: int = 80
) -> list[list[str]]:
    found = nearest_passages(encoder, queries, encoder.encode(queries), hits, most_parts)
    return [[each.text for each in own] for own in found]


def test_an_excerpt_has_its_own_pages() -> None:
    text = "The pumps run. The sweep comes. Cash is paid."  # pages 4 to 6 begin at 0, 15 and 32
    of_pages = Hit("id", 0.5, text, page=4, pages=[(15, 5), (32, 6)])
    shown = [nearest_by_words(query, of_pages, 16) for query in ("pumps", "sweep", "cash")]
    assert [(each.page, each.last_page) for each in shown] == [(4, 4), (5, 5), (6, 6)]
    both = nearest_by_words("cash sweep", of_pages, 32)
    assert (both.text, both.page, both.last_page) == ("The pumps run. The sweep comes.…", 4, 5)
    assert nearest_by_words("pumps", hit(text), 16).page is None


def test_line_breaks_stay_and_a_query_may_run_over_one() -> None:
    songs = "hey jude\n\nwanted dead or\n  alive\t- bon jovi\ndrops of jupiter\n"
    assert nearest_by_words("dead or alive", hit(songs)).text == songs
    cut = nearest_by_words("dead or alive", hit(songs), 24)
    assert cut.text == "…wanted dead or\n  alive…"
    assert songs[cut.start : cut.end] == cut.text.strip("…")
    assert songs[next(parts(songs, 20))] == "hey jude\n\nwanted"
    assert songs[next(parts(songs, 15))] == "hey jude\n"


def test_excerpts_equal_brute_force_over_all_parts() -> None:
    encoder, query = WordEncoder(), "the mean of several numbers"
    texts = [f"{FILLER * i}The mean of {i} numbers. {FILLER * 3}" for i in range(5)]
    (shown,) = passages_near(encoder, [query], [[hit(text) for text in texts]])
    (expected,) = encoder.encode([query])
    for text, actual in zip(texts, shown, strict=True):
        own = [text[part] for part in parts(text)]
        vectors = encoder.encode(own)
        cosines = vectors @ expected / np.linalg.norm(vectors, axis=1)
        assert actual.strip("…") == own[int(cosines.argmax())]


def test_short_texts_are_shown_whole_and_not_encoded() -> None:
    encoder = WordEncoder()
    assert passages_near(encoder, ["x"], [[hit("a\nb"), hit("")]]) == [["a\nb", ""]]
    assert encoder.encoded == ["x"]


def test_only_what_the_encoder_read_is_compared_by_meaning() -> None:
    encoder = WordEncoder()
    far = 20 * FILLER + "White matter of the brain."
    ((shown,),) = passages_near(encoder, ["white matter"], [[hit(far[:300], "t" * 5000)]])
    assert shown == beginning(hit(far[:300])).text
    ((shown,),) = passages_near(encoder, ["brains"], [[hit(far)]])
    assert "White matter of the brain." in shown  # which words have found
    assert not any("White matter" in text for text in encoder.encoded)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("strict_content_type=False", "app = FastAPI(strict_content_type=False)"),
        ("STRICT_CONTENT_TYPE", "set strict_content_type here"),
        ("E4031", "shows E4031: no pressure"),
        ("timeouts", "where readTimeout is set"),
        ("Donaudampfschiff", "das Donau\xaddampf\xadschiff legt ab"),
        ("cafe", "beside the Café there"),
        ("İSTANBUL", "by train to istanbul and back"),
        ("strasse", "in der STRAẞE dort"),
        ("向量搜索", "它使用向量搜索技术"),
        ("the certificate of the cat", "keeps the certificate of the cat at home"),
        ("a + b", "so that a + b is c"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 7, 40])
def test_the_words_of_a_query_are_shown_and_marked(query: str, text: str, before: int) -> None:
    """Wherever they are in the text, and across the parts into which it would be cut."""
    whole = f"{before * FILLER}{text}. {9 * FILLER}"
    encoder = WordEncoder()
    for shown in (
        passages_near(encoder, [query], [[hit(whole)]])[0][0],
        nearest_by_words(query, hit(whole)).text,
        nearest_by_words(query, hit(whole), 280).text,
    ):
        marked = {shown[start:end] for start, end in word_places(shown, query)}
        assert marked == {text[start:end] for start, end in word_places(text, query)} != set()


def test_the_place_of_a_query_is_shown_whole_whatever_is_before_it() -> None:
    query = "keep the certificate of the old cat"
    for letters in range(0, 400, 6):
        text = ("x " * 300)[:letters] + query + " y" * 300
        for length in (60, LENGTH, 280):
            shown = nearest_by_words(query, hit(text), length).text
            assert query in shown
            assert len(shown) <= length + 2


def test_of_a_query_the_telling_words_are_marked() -> None:
    text = "The cat sat on the mat; thecat, cats and a Cat\u0301 too."
    marked = [text[start:end] for start, end in word_places(text, "where did the cat sit?")]
    assert marked == ["cat", "cats", "Cat\u0301"]
    assert [text[slice(*place)] for place in word_places(text, "on the")] == ["The", "on", "the"]
    assert word_places(text, "") == []


@given(st.text(alphabet=st.sampled_from("ab .!。\u00e9"), max_size=600), st.integers(2, 40))
def test_parts_cover_the_text(text: str, length: int) -> None:
    text = on_one_line(text)
    actual = list(parts(text, length))
    assert all(part.stop - part.start <= length for part in actual)
    assert actual[0].start == 0
    assert actual[-1].stop == len(text)
    for one, following in pairwise(actual):
        assert text[one.stop : following.start] in ("", " ")
        assert one.stop > one.start
