"""Decoding: text in the encodings that people's old files are in comes out as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.retrieval.sources.files.decoding import decoded
from slimdex.retrieval.sources.files.file_source import FileSource
from slimdex.retrieval.sources.files.limits import UnreadableError

from .reading import read

TEXTS = {
    "French": ("Une lettre à ma mère : la première fenêtre. Très bien, à bientôt.", "cp1252"),
    "French word": ("crème brûlée", "cp1252"),
    "Swedish": ("Vi åker från Malmö på måndag, och sjön är så blå här.", "cp1252"),
    "German": ("Die Größe der Übung wäre schön für Müller und Käthe.", "cp1252"),
    "Spanish": ("El niño comió piña y mañana irá al jardín. ¿Qué tal?", "cp1252"),
    "Portuguese": ("Não há pão; amanhã irei à padaria às três. Coração e emoção.", "cp1252"),
    "Danish": ("Jeg bor på Strøget i København og spiser rødgrød med fløde.", "cp1252"),
    "Polish": ("Wczoraj byłem w Łodzi i zjadłem śniadanie, później pojechałem dalej.", "cp1250"),
    "Czech": ("Včera jsem byl v Brně a večeřel jsem. Děkuji, že jste přišli.", "cp1250"),
    "Turkish": ("Dün güneşli bir gündü. Çok güzel bir şehir, ığdır'dan geldim.", "cp1254"),
    "Russian": ("Съешь ещё этих мягких французских булок, да выпей чаю.", "cp1251"),
    "Greek": ("Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Χθες ήμουν στην Αθήνα.", "cp1253"),
    "Japanese": ("昨日は京都に行きました。とても楽しかったです。お茶を飲みました。", "shift_jis"),
    "Chinese": ("昨天我去了北京。天气很好，我们喝了茶，然后回家。", "gb18030"),
}


@pytest.mark.parametrize("language", TEXTS)
def test_an_encoding_is_guessed_by_the_words(language: str) -> None:
    text, encoding = TEXTS[language]
    assert decoded(text.encode(encoding)) == text


def test_a_given_encoding_is_used_unless_the_text_is_utf_8() -> None:
    assert decoded("Größe".encode(), "latin-1") == "Größe"
    assert decoded("Größe".encode("latin-1"), "latin-1") == "Größe"
    assert decoded("tea".encode("utf-16-le"), "utf-16-le") == "tea"
    with pytest.raises(UnreadableError, match="byte 3 is not valid ASCII"):
        decoded("Größe".encode("latin-1"), "ascii")


def test_files_whose_encoding_was_guessed_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("crème".encode("cp1252"))
    (tmp_path / "b.txt").write_text("crème")
    found, said = read(tmp_path)
    assert [document.text for document in found.values()] == ["crème", "crème"]
    assert said == ["not UTF-8, encoding guessed (set it with encoding=latin-1 or another): a.txt"]
    source = FileSource.of_folder(str(tmp_path), "cp1252")
    assert len([d for batch in source.batches() for d in batch]) == 2
    assert source.left_out() == []
