"""Scanned pages and pictures: with Tesseract their text, without it a line that counts them."""

from __future__ import annotations

import io
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import listening
from slimdex.retrieval.sources.files.file_source import FileSource
from slimdex.retrieval.sources.files.formats import pdf, tesseract
from slimdex.retrieval.sources.files.limits import UnreadableError
from slimdex.retrieval.sources.source import open_source

from .reading import read

needs_tesseract = pytest.mark.skipif(
    shutil.which("tesseract") is None,
    reason="Tesseract is not installed: apt-get install tesseract-ocr",
)
TEXT = """\
The boiler in the cellar was serviced in May.
Its pump was replaced, and the pressure
is now one and a half bar.

When the radiators stay cold, open the valve
behind the door and bleed them one by one,
beginning with the lowest floor."""
INSTALL = tesseract.INSTALL


def scan(text: str, *, degrees: float = 0, noise: float = 8, seed: int = 0) -> Image.Image:
    """A page of A4 at 200 dots per inch, a little askew on the glass, with the sensor's noise."""
    page = Image.new("L", (1654, 2339), 255)
    font = ImageFont.load_default(48)
    ImageDraw.Draw(page).multiline_text((150, 200), text, font=font, fill=20, spacing=20)
    page = page.rotate(
        degrees, expand=degrees % 90 == 0, fillcolor=255, resample=Image.Resampling.BICUBIC
    )
    grey = np.asarray(page) + np.random.default_rng(seed).normal(0, noise, page.size[::-1])
    return Image.fromarray(grey.clip(0, 255).astype(np.uint8))


def saved(page: Image.Image, kind: str, **more: object) -> bytes:
    file = io.BytesIO()
    page.save(file, kind, **more)
    return file.getvalue()


def share(found: str, text: str = TEXT) -> float:
    """Share of the text's words that are in what was found."""
    expected = Counter(text.split())
    return (expected & Counter(found.split())).total() / expected.total()


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No program is on the search path, as where Tesseract is not installed."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@needs_tesseract
@pytest.mark.parametrize(("degrees", "noise"), [(0, 0), (2, 25), (-3, 25), (90, 25), (180, 25)])
def test_a_noisy_page_at_an_angle(degrees: float, noise: float) -> None:
    found = tesseract.read(saved(scan(TEXT, degrees=degrees, noise=noise), "png"))
    assert share(found.text) > 0.8
    assert found.text.count("\n\n") == 1  # two paragraphs


@needs_tesseract
def test_pages_of_a_pdf_that_are_pictures(tmp_path: Path) -> None:
    pages = [scan(TEXT, degrees=1), scan("Close the valve in winter.", seed=1)]
    data = saved(pages[0], "pdf", resolution=200, save_all=True, append_images=pages[1:])
    said = list[tuple[str, int, int]]()
    with listening(lambda *each: said.append(each)):
        found = pdf.read(data)
    assert said == [("recognising pages", 1, 2), ("recognising pages", 2, 2)]
    assert found.unread == 0
    assert [(part.page, part.anchor) for part in found.parts] == [(1, "page=1"), (2, "page=2")]
    first, second = found.text[: found.parts[1].start], found.text[found.parts[1].start :]
    assert share(first) > 0.9
    assert second == "Close the valve in winter."


@needs_tesseract
def test_pictures_in_a_folder(tmp_path: Path) -> None:
    page = scan("Close the valve in winter.")
    (tmp_path / "page.tiff").write_bytes(
        saved(page, "tiff", save_all=True, append_images=[scan("Open it in spring.", seed=1)])
    )
    (tmp_path / "page.pdf").write_bytes(saved(page, "pdf", resolution=200))
    rng = np.random.default_rng(1)
    colours = Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8))
    (tmp_path / "photo.jpg").write_bytes(saved(colours.resize((800, 600)), "jpeg"))
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    found, said = read(tmp_path)
    assert {id: document.text for id, document in found.items()} == {
        "page.tiff": "Close the valve in winter.\n\nOpen it in spring.",
        "page.pdf": "Close the valve in winter.",
    }
    assert [part.page for part in found["page.tiff"].parts] == [1, 2]
    assert found["page.tiff"].metadata["kind"] == "image"
    assert said == [
        "left out: 1 without text",
        "1 file could not be read: broken.png (no picture that Tesseract reads)",
    ]


@pytest.mark.usefixtures("nowhere")
def test_without_tesseract_pages_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    folder.mkdir()
    page = scan("Close the valve in winter.")
    (folder / "a.pdf").write_bytes(
        saved(page, "pdf", resolution=200, save_all=True, append_images=[page])
    )
    (folder / "b.png").write_bytes(saved(page, "png"))
    (folder / "c.txt").write_text("Text.")
    source = FileSource.of_folder(str(folder))
    found = [document.id for batch in source.batches() for document in batch]
    line = f"3 pages have no text but pictures ({INSTALL}): a.pdf, b.png"
    assert (found, source.left_out()) == (["c.txt"], [line])
    assert not source.may_go("a.pdf", "")
    for name, said in (("a.pdf", "2 pages have"), ("b.png", "1 page has")):
        with pytest.raises(InputError, match=rf"nothing to read \({said} no text but pictures"):
            list(open_source(str(folder / name)).batches())


@pytest.mark.skipif(os.name == "nt", reason="a script is the program")
def test_a_program_that_fails_or_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tesseract"
    program.write_text('#!/bin/sh\n[ "$1" = --list-langs ] && exit 0\nexec /bin/sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tesseract, "PATIENCE", 0.5)
    tesseract._options.cache_clear()
    page = saved(scan("Close the valve."), "png")
    with pytest.raises(UnreadableError, match="takes Tesseract over"):
        tesseract.read(page)
    found = pdf.read(saved(scan("Close the valve."), "pdf"))
    assert (found.text, found.unread) == ("", 1)
    program.write_text("no program")
    tesseract._options.cache_clear()
    with pytest.raises(UnreadableError, match="does not start"):
        tesseract.read(page)
    tesseract._options.cache_clear()
