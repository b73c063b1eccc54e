"""Decoding: text in the encodings that people's old files are in comes out as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest
import webencodings
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.sources.files import decoding
from slimdex.retrieval.sources.files.decoding import decode_text
from slimdex.retrieval.sources.files.file_source import FileSource
from slimdex.retrieval.sources.files.formats import html_pages, readers
from slimdex.retrieval.sources.files.input_files import FileFormat
from slimdex.retrieval.sources.files.limits import UnreadableError

from .reading import read

TEXTS = {
    "French": ("Une lettre à ma mère : la première fenêtre. Très bien, à bientôt.", "cp1252"),
    "German": ("Die Größe der Übung wäre schön für Müller und Käthe.", "cp1252"),
    "Polish": ("Wczoraj byłem w Łodzi i zjadłem śniadanie, później pojechałem dalej.", "cp1250"),
    "Turkish": ("Dün güneşli bir gündü. Çok güzel bir şehir, ığdır'dan geldim.", "cp1254"),
    "Russian": ("Съешь ещё этих мягких французских булок, да выпей чаю.", "cp1251"),
    "Russian of Unix": ("Все счастливые семьи похожи друг на друга." * 4, "koi8-r"),
    "UTF-8 with a mark": ("größer", "utf-8-sig"),
    "UTF-16": ("größer", "utf-16"),
    "Greek": ("Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Χθες ήμουν στην Αθήνα.", "cp1253"),
    "Japanese": ("昨日は京都に行きました。とても楽しかったです。お茶を飲みました。", "shift_jis"),
    "Chinese": ("昨天我去了北京。天气很好，我们喝了茶，然后回家。", "gb18030"),
}


@pytest.mark.parametrize("language", TEXTS)
def test_an_encoding_is_guessed_by_the_words(language: str) -> None:
    text, encoding = TEXTS[language]
    assert decode_text(text.encode(encoding)) == text


def test_a_given_encoding_is_used_unless_the_text_is_utf_8() -> None:
    assert decode_text("Größe".encode(), "latin-1") == "Größe"
    assert decode_text("Größe".encode("latin-1"), "latin-1") == "Größe"
    assert decode_text("tea".encode("utf-16-le"), "utf-16-le") == "tea"
    assert decode_text("①".encode("cp932"), "shift_jis") == "①"  # of a vendor
    with pytest.raises(UnreadableError, match="not valid GB18030"):
        decode_text(b"a\xff", "gb18030")


def test_files_whose_encoding_was_guessed_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("crème".encode("cp1252"))
    (tmp_path / "b.txt").write_text("crème")
    found, said = read(tmp_path)
    assert [document.text for document in found.values()] == ["crème", "crème"]
    assert said == ["not UTF-8, encoding guessed (set it with encoding=latin-1 or another): a.txt"]
    source = FileSource.of_folder(str(tmp_path), FileFormat("cp1252"))
    assert len([d for batch in source.batches() for d in batch]) == 2
    assert source.omissions() == []


GERMAN = "Der Kessel wurde im März geprüft, die Größe blieb gleich. "
CUT = GERMAN.encode() + b"Gr\xc3... " + GERMAN.encode()  # within a character
MIXED = GERMAN.encode() + b"M\xfcller " + GERMAN.encode()  # with a name in Latin-1
MAIL = b"Subject: K\nContent-Type: text/plain; charset=%b\nContent-Transfer-Encoding: 8bit\n\n%b"
DAMAGED = {
    "a.md": b"# K\n\n" + CUT,
    "a.txt": MIXED,
    "a.py": b"# -*- coding: latin-1 -*-\n" + MIXED * 3,
    "labelled.html": b'<meta charset="UTF-8"><p>' + CUT,
    "wrong.html": b"<meta charset=iso-8859-1><p>" + CUT * 3,
    "script.html": b"<meta charset=utf-8><script>/* \xf6 */</script><p>" + GERMAN.encode() * 2,
    "a.xml": b"<a><p>" + CUT + b"</p></a>",
    "a.eml": MAIL % (b"utf-8", CUT),
    "wrong.eml": MAIL % (b"iso-8859-1", CUT * 3),
    "a.mbox": b"From - Wed May  1 12:00:00 2024\n" + MAIL % (b"utf-8", CUT),
}
"""Files that are UTF-8 but for a byte."""


@pytest.mark.parametrize("name", DAMAGED)
def test_utf_8_with_a_wrong_byte_stays_utf_8(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(DAMAGED[name])
    source = FileSource.of_folder(str(tmp_path))
    ((document,),) = source.batches()
    sentences, broken = (6, 3) if name in ("a.py", "wrong.html", "wrong.eml") else (2, 1)
    assert document.text.count(GERMAN.strip()) == sentences
    assert document.text.count("\ufffd") == (0 if name == "script.html" else broken)
    where = f"{name}, message 1" if name == "a.mbox" else name
    lines = source.omissions()
    assert lines == (
        []
        if name == "script.html"
        else [f"characters that can't be decoded, read as U+FFFD: {where} ({broken})"]
    )


WORLD = "Größe, ещё, Ελλάδα, 漢字と仮名, हिन्दी, «ça», 𝄞 "


@given(st.integers(0, len(WORLD.encode()) - 1), st.sampled_from([b"", b"\xff", b"\xe9", b"\xc3"]))
def test_one_wrong_byte_damages_one_character(place: int, byte: bytes) -> None:
    whole = WORLD.encode()
    data = whole + whole[:place] + byte + whole[place + 1 :] + whole
    for text in (decode_text(data), decode_text(data, label="utf-8"), decode_text(data, "cp1251")):
        assert text.startswith(WORLD)
        assert text.endswith(WORLD[1:])
        assert len(text) - len(WORLD) * 3 in range(-1, 4)  # of four bytes, each may be one


def test_a_mark_decides_although_a_byte_is_wrong() -> None:
    assert decode_text("größer".encode("utf-16") + b"\xff") == "größer\ufffd"
    assert decode_text(b"\xef\xbb\xbfa\xff", "latin-1") == "a\ufffd"


@pytest.mark.parametrize("language", TEXTS)
def test_short_texts_in_older_encodings_are_not_taken_for_utf_8(language: str) -> None:
    text, encoding = TEXTS[language]
    if "-" in encoding and encoding != "koi8-r":  # UTF-8 or UTF-16
        return
    for start in range(0, len(text), 16):
        data = text[start : start + 16].encode(encoding)
        is_utf_8 = "\ufffd" not in data.decode("utf-8", "replace")
        assert decoding.stated_codec(data, None, None) == ("utf-8" if is_utf_8 else None)


LABELLED = [  # by the WHATWG encoding standard; a browser is asked about all labels below
    ("us-ascii", b"\x93Na\xefve\x94 \x80 5", "“Naïve” € 5"),
    ("TIS-620", b"\x93\xa1\xd2\x94 \x85", "“กา” …"),
    ("gb2312", b"\xd6\xec\xe9F\xbb\xf9", "朱镕基"),
    ("shift_jis", b"\x87@\xed@\xfaV \\~", "①纊＇ \\~"),
    ("iso-2022-jp", b"\x1b$B-!%\\y!\x1b(B ok \x1b(J\\~\x1b(I1\x1b(B", "①ボ纊 ok ¥‾ｱ"),
    ("utf-16", b"h\0i\0", "hi"),
    ("unicode-1-1-utf-8", b"caf\xc3\xa9", "café"),
    ("latin-1", b"\x93", "“"),  # Python's names, which browsers do not know
    ("cp437", b"\x82", "é"),
    ("utf-7", b"+AOk-", "é"),
]


@pytest.mark.parametrize(("label", "data", "text"), LABELLED)
def test_labels_are_read_as_by_browsers(label: str, data: bytes, text: str) -> None:
    assert decode_text(data, label=label) == text


def test_a_label_in_any_place_is_read_the_same() -> None:
    smart, text = "“Tea”".encode("cp1252"), "“Tea”"
    for name, kind, first in (
        ("a.html", "html", b"<html><head><meta charset=us-ascii></head><body>"),
        ("a.html", "html", b"<META http-equiv=a content='text/html; charset=ISO-8859-1'>"),
        ("a.html", "html", b'<?xml version="1.0" encoding="latin1"?><body>'),
        ("a.css", "code", b'@charset "iso-8859-1";\n'),
        ("a.py", "code", b"#!/bin/sh\n# -*- coding: latin-1 -*-\n"),
        ("a.txt", "text", b"<?xml version='1.0' encoding='ascii'?>\n"),
    ):
        assert readers.read(name, kind, first + smart).text.endswith(text)


def test_a_label_that_is_wrong_decides_nothing() -> None:
    german, russian = "Die Größe der Übung wäre schön.", "Съешь ещё этих мягких булок, да выпей."
    for label in ("us-ascii", "iso-8859-1", "gb2312", "iso-2022-jp", "klingon", "base64", "\0"):
        assert decode_text(russian.encode(), label=label) == russian
    assert decode_text("é".encode(), label="latin1") == "é"
    assert decode_text(german.encode("cp1252"), label="utf-8") == german
    assert decode_text(russian.encode("cp1251"), label="iso-2022-jp") == russian
    assert decode_text("é".encode("utf-16"), label="gb2312") == "é"
    meta = b"<meta charset=utf-16><p>"
    assert html_pages.read(meta + "größer".encode()).text == "größer"


@given(st.binary(max_size=40), st.sampled_from(sorted(webencodings.LABELS)))
def test_any_bytes_are_read_by_any_label(data: bytes, label: str) -> None:
    assert isinstance(decode_text(data, label=label), str)
