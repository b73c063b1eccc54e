"""Texts in languages that an encoder does not know."""

from __future__ import annotations

import importlib.util
import inspect
import json
from pathlib import Path

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.encoders import models
from slimdex.retrieval.encoders.models import other_languages
from slimdex.retrieval.sources.source import Sources
from tests.building import add, build
from tests.encoders import WordEncoder

GERMAN = [
    "Der Heizkessel im Keller wurde gestern repariert und läuft seitdem wieder ohne Störung.",
    "Die Rechnung für das zweite Quartal liegt im Ordner auf dem Schreibtisch der Buchhaltung.",
    "Bitte denken Sie daran, dass die Bibliothek am Freitag schon um zwölf Uhr schließt.",
]
ENGLISH = ["The boiler was repaired yesterday.", "Bills are in the folder.", "12", "..."]
CHINESE = ["锅炉昨天修好了。", "账单在文件夹里。", "图书馆星期五关门。"]
JAPANESE = [
    "ボイラーはきのう修理されました。",
    "請求書はファイルにあります。",
    "としょかんは金曜日に閉まります。",
]
ARABIC = ["تم إصلاح الغلاية أمس.", "الفواتير في المجلد.", "تغلق المكتبة يوم الجمعة."]
HAS_DETECTOR = importlib.util.find_spec("py3langid") is not None
detected = pytest.mark.skipif(not HAS_DETECTOR, reason="py3langid is missing")


class NamedEncoder(WordEncoder):
    """A bag of words under the name of a model."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = model

    def spec(self) -> dict[str, str | int]:
        return {"type": "words", "model": self.model, "dim": self.dim}


def test_scripts_need_no_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    assert other_languages(CHINESE) == (1.0, "CJK script")
    assert other_languages([*CHINESE, *ENGLISH]) == (0.6, "CJK script")
    assert other_languages([*JAPANESE, *ENGLISH]) == (0.6, "Hiragana script")
    assert other_languages([*ARABIC, *ENGLISH]) == (0.6, "Arabic script")
    assert other_languages([*GERMAN, *ENGLISH]) == (0.0, "")
    assert other_languages([]) == (0.0, "")
    assert other_languages(["12", ""]) == (0.0, "")


@detected
def test_languages_in_latin_script() -> None:
    assert other_languages(GERMAN) == (1.0, "language 'de'")
    assert other_languages([*GERMAN, *ENGLISH]) == (0.6, "language 'de'")


@detected
def test_code_and_english_are_no_other_language() -> None:
    sources = [inspect.getsource(part) for part in (json.dumps, json.loads, Path.glob, build)]
    names = ["libpng-dev - development files", "A quick sort in C, and its tests"]
    share, _ = other_languages([*sources, *names, inspect.cleandoc(json.__doc__ or "")])
    assert share == 0


@pytest.mark.parametrize(
    ("texts", "model", "noted"),
    [
        (CHINESE, "all-MiniLM-L6-v2", "CJK script"),
        pytest.param(GERMAN, "all-MiniLM-L6-v2", "language 'de'", marks=detected),
        (["The cat sat.", "The dog ran.", "Rain fell."], "all-MiniLM-L6-v2", None),
        (CHINESE, "unknown", None),
    ],
)
def test_languages_that_the_model_does_not_know_are_noted(
    tmp_path: Path, texts: list[str], model: str, noted: str | None
) -> None:
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(texts) + "\n")
    made, added = build(
        tmp_path / "i", Sources.open(str(source)), lambda: NamedEncoder(model), Settings()
    )
    start = f"100% of these texts are not in English (most often {noted})"
    with made:
        source.write_text("\n".join(reversed(texts)) + "\n")
        for notes in (added.notes, add(made, Sources.open(str(source))).notes):
            found = [note for note in notes if "English" in note]
            assert len(found) == (noted is not None)
            assert all(note.startswith(start) for note in found)
            assert all("the model multilingual-e5-small" in note for note in found)
