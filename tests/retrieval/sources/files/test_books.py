"""PDF, DOCX, ODT, PPTX and EPUB: exact text and parts, and files that are made to do harm."""

from __future__ import annotations

import io
import zipfile
import zlib
from datetime import datetime
from pathlib import Path

import pytest

from slimdex.retrieval.sources.files.formats import epub, office, pdf
from slimdex.retrieval.sources.files.formats.readers import read as read_any
from slimdex.retrieval.sources.files.limits import UnreadableError
from slimdex.retrieval.sources.files.worker import Worker

from .reading import pieces, read


def pdf_file(pages: list[bytes], *, trailer: bytes = b"", sections: bool = False) -> bytes:
    """A PDF with these streams of its pages, compressed, and two sections if asked for."""
    count = len(pages)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R" + (b" /Outlines 4 0 R" if sections else b"") + b" >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>"
        % (b" ".join(b"%d 0 R" % (20 + 2 * i) for i in range(count)), count),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /First 5 0 R /Last 6 0 R /Count 2 >>",
        b"<< /Title (Leaves) /Parent 4 0 R /Next 6 0 R /Dest [20 0 R /Fit] >>",
        b"<< /Title (Water) /Parent 4 0 R /Prev 5 0 R /Dest [22 0 R /Fit] >>",
        b"<< /Title (Brewing tea) /Author (Ann) /CreationDate (D:20240501120000Z) >>",
    ]
    numbered = dict(enumerate(objects, start=1))
    for i, stream in enumerate(pages):
        packed = zlib.compress(stream, 1)
        numbered[20 + 2 * i] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents %d 0 R "
            b"/Resources << /Font << /F 3 0 R >> >> >>" % (21 + 2 * i)
        )
        numbered[21 + 2 * i] = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (
            len(packed),
            packed,
        )
    out, offsets = b"%PDF-1.4\n", {}
    for number, body in numbered.items():
        offsets[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start, last = len(out), max(numbered)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (last + 1)
    for number in range(1, last + 1):
        kept = number in offsets
        out += b"%010d %05d %s \n" % (
            offsets.get(number, 0),
            0 if kept else 65535,
            b"fn"[kept:][:1],
        )
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 7 0 R %s >>\n" % (last + 1, trailer)
    return out + b"startxref\n%d\n%%%%EOF" % start


def lines(*said: bytes) -> bytes:
    return b"BT /F 12 Tf 20 200 Td 14 TL " + b" ".join(b"(%s) Tj T*" % s for s in said) + b" ET"


PICTURE = b"q 300 0 0 300 0 0 cm BI /W 2 /H 1 /BPC 8 /CS /G ID \x00\xff EI Q"


def archive(**entries: str | bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in entries.items():
            packed.writestr(name, data)
    return file.getvalue()


def test_pdf() -> None:
    data = pdf_file(
        [lines(b"Preface.", b"Leaves", b"Green ones."), lines(b"Boiling.", b"Water", b"Hot.")],
        sections=True,
    )
    tea = pdf.read(data)
    assert tea.title == "Brewing tea"
    assert tea.facts == {"author": "Ann", "date": datetime(2024, 5, 1, 12), "pages": 2}
    assert pieces(tea) == [
        ((), "page=1", "Preface."),
        (("Leaves",), "page=1", "Leaves\nGreen ones."),
        (("Leaves",), "page=2", "Boiling."),
        (("Water",), "page=2", "Water\nHot."),
    ]
    assert [part.page for part in tea.parts] == [1, 1, 2, 2]


def test_pdf_that_is_locked_or_broken(tmp_path: Path) -> None:
    locked = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >> /ID [<00> <00>]" % (
        b"00" * 32,
        b"00" * 32,
    )
    (tmp_path / "locked.pdf").write_bytes(pdf_file([lines(b"a")], trailer=locked))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (tmp_path / "scan.pdf").write_bytes(pdf_file([b""]))
    (tmp_path / "fine.pdf").write_bytes(pdf_file([lines(b"Fine.")]))
    found, said = read(tmp_path)
    assert found["fine.pdf"].text == "Fine."
    assert said == [
        "3 files could not be read: broken.pdf (broken PDF), locked.pdf "
        "(encrypted), scan.pdf (no text; a scan needs OCR, as by ocrmypdf)"
    ]


def test_scanned_pages_among_pages_of_text(tmp_path: Path) -> None:
    blank, stamped = b"", PICTURE + b" " + lines(b"Received.")
    (tmp_path / "fine.pdf").write_bytes(pdf_file([lines(b"Fine."), blank, stamped]))
    (tmp_path / "one.pdf").write_bytes(pdf_file([lines(b"Tea."), PICTURE]))
    found, said = read(tmp_path)
    assert [part.page for part in found["fine.pdf"].parts] == [1, 3]
    assert found["one.pdf"].text == "Tea."
    remedy = "without text until `ocrmypdf --skip-text` adds it"
    assert said == [f"left out: 1 scanned page of 1 file, {remedy}: one.pdf (1 of 2)"]
    (tmp_path / "two.pdf").write_bytes(pdf_file([PICTURE, lines(b"Tea."), blank, PICTURE]))
    names = "one.pdf (1 of 2), two.pdf (2 of 4)"
    assert read(tmp_path)[1] == [f"left out: 3 scanned pages of 2 files, {remedy}: {names}"]


@pytest.mark.slow
def test_pdf_bomb() -> None:
    text = b"BT /F 12 Tf " + b"(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) Tj " * 4_000_000
    bomb = pdf_file([text + b"ET"] * 3)
    assert len(bomb) < 8 << 20
    with Worker(seconds=20) as worker:
        with pytest.raises(
            UnreadableError, match=r"takes over|needs over|reader died|over 10,485,760 char"
        ):
            worker.read("bomb.pdf", "pdf", bomb)
        fine = pdf_file([lines(b"Fine.")])
        assert worker.read("fine.pdf", "pdf", fine)[1].text == "Fine."


def test_docx(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.core_properties.title = "Brewing tea"
    document.core_properties.author = "Ann"
    document.core_properties.keywords = "hot"
    document.core_properties.comments = ""
    document.core_properties.created = datetime(2024, 5, 1)
    document.add_heading("Tea", 0)
    document.add_paragraph("Some ").add_run("leaves").bold = True
    document.add_heading("Steps", 1)
    document.add_paragraph("Boil", style="List Number")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ["a", "b", "1", "2"], strict=True):
        cell.text = text
    document.add_heading("Fast", 2)
    document.add_paragraph("In a\tbag.")
    document.save(str(tmp_path / "tea.docx"))
    tea = office.read_docx((tmp_path / "tea.docx").read_bytes())
    assert tea.title == "Brewing tea"
    assert tea.facts["author"] == "Ann"
    assert tea.facts["tags"] == "hot"
    assert tea.facts["date"] == datetime(2024, 5, 1)
    assert pieces(tea) == [
        (("Tea",), "", "Tea\n\nSome leaves"),
        (("Tea", "Steps"), "", "Steps\n\nBoil\n\na\tb\n1\t2"),
        (("Tea", "Steps", "Fast"), "", "Fast\n\nIn a\tbag."),
    ]


ODT = """<?xml version="1.0"?><office:document-content xmlns:office="urn:o" xmlns:text="urn:t"
 xmlns:table="urn:b"><office:body><office:text><text:tracked-changes><text:p>gone</text:p>
</text:tracked-changes><text:h text:outline-level="1">Tea</text:h>
<text:p>Some<text:s/><text:span>leaves</text:span><text:note><text:note-citation>1</text:note-citation>
<text:note-body><text:p>green</text:p></text:note-body></text:note>.</text:p>
<text:list><text:list-item><text:p>one</text:p></text:list-item></text:list>
<text:h text:outline-level="2">Table</text:h><table:table><table:table-row>
<table:table-cell><text:p>a</text:p></table:table-cell><table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table>
</office:text></office:body></office:document-content>"""
META = """<m xmlns:dc="urn:d"><dc:title>Brewing tea</dc:title><dc:creator>Ann</dc:creator></m>"""


def test_odt() -> None:
    tea = office.read_odt(archive(**{"content.xml": ODT, "meta.xml": META}))
    assert (tea.title, tea.facts) == ("Brewing tea", {"author": "Ann"})
    assert pieces(tea) == [
        (("Tea",), "", "Tea\n\nSome leaves (green).\n- one"),
        (("Tea", "Table"), "", "Table\n\na\tb"),
    ]


def test_pptx(tmp_path: Path) -> None:
    pptx = pytest.importorskip("pptx")
    deck = pptx.Presentation()
    deck.core_properties.title = "Brewing tea"
    deck.core_properties.author = "Ann"
    deck.core_properties.comments = ""
    deck.core_properties.created = datetime(2024, 5, 1)
    first = deck.slides.add_slide(deck.slide_layouts[0])
    first.shapes.title.text = "Tea\nfor all"
    first.placeholders[1].text = "A short course"
    steps = deck.slides.add_slide(deck.slide_layouts[1])
    steps.placeholders[1].text = "Boil\nPour"
    steps.shapes.title.text = "Steps"
    tree = steps.shapes._spTree  # the title last, which is above everything else
    tree.append(steps.shapes.title._element)
    steps.notes_slide.notes_text_frame.text = "Mention the kettle."
    leaves = deck.slides.add_slide(deck.slide_layouts[6])
    cells = leaves.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for place, text in zip(((0, 0), (0, 1), (1, 0), (1, 1)), "ab12", strict=True):
        cells.cell(*place).text = text
    box = leaves.shapes.add_group_shape().shapes.add_textbox(0, 0, 9, 9)
    box.text_frame.text = "In a bag."
    ids = deck.slides._sldIdLst
    ids.insert(1, ids[2])  # the order of slides is not that of their files
    deck.save(str(tmp_path / "tea.pptx"))
    tea = office.read_pptx((tmp_path / "tea.pptx").read_bytes())
    assert tea.title == "Brewing tea"
    assert tea.facts == {"author": "Ann", "date": datetime(2024, 5, 1), "pages": 3}
    assert pieces(tea) == [
        (("Tea for all",), "", "Tea for all\n\nA short course"),
        ((), "", "a\tb\n1\t2\n\nIn a bag."),
        (("Steps",), "", "Steps\n- Boil\n- Pour\n\nMention the kettle."),
    ]
    assert [part.page for part in tea.parts] == [1, 2, 3]


def test_epub() -> None:
    container = '<c><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></c>'
    package = (
        '<p xmlns:dc="urn:d"><metadata><dc:title>Tea</dc:title><dc:creator>Ann</dc:creator>'
        '<dc:language>en</dc:language></metadata><manifest><item id="b" href="b%20c.xhtml"/>'
        '<item id="a" href="a.xhtml"/></manifest><spine><itemref idref="b"/><itemref idref="a"/>'
        "</spine></p>"
    )
    book = archive(
        **{
            "META-INF/container.xml": container,
            "OPS/book.opf": package,
            "OPS/a.xhtml": "<html><body><h1 id='two'>Two</h1><p>b</p></body></html>",
            "OPS/b c.xhtml": "<html><body><h1 id='one'>One</h1><p>a</p></body></html>",
        }
    )
    tea = epub.read(book)
    assert (tea.title, tea.facts) == ("Tea", {"author": "Ann", "language": "en"})
    assert pieces(tea) == [(("One",), "one", "One\n\na"), (("Two",), "two", "Two\n\nb")]


def test_the_charset_of_an_epub_is_read_as_by_browsers() -> None:
    declared = b'<?xml version="1.0" encoding="%b"?>'
    package = (
        declared % b"gb2312" + b'<p><title>\xd6\xec\xe9F</title><item id="a" href="a.xhtml"/>'
        b'<itemref idref="a"/></p>'
    )
    page = declared % b"shift_jis" + b"<html><body><p>\x87@\x83{</p></body></html>"
    container = declared % b"us-ascii" + b'<c><rootfile full-path="book.opf"/></c>'
    files = {"META-INF/container.xml": container, "book.opf": package, "a.xhtml": page}
    book = epub.read(archive(**files))
    assert (book.title, book.text) == ("朱镕", "①ボ")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["docx", "odt", "pptx", "epub"])
def test_archives_that_are_bombs_or_broken(kind: str) -> None:
    name = {
        "docx": "word/document.xml",
        "odt": "content.xml",
        "pptx": "ppt/presentation.xml",
        "epub": "META-INF/container.xml",
    }
    bomb = archive(**{name[kind]: b"<a>" + b"a" * (64 << 20) + b"</a>"})
    assert len(bomb) < 1 << 17
    with pytest.raises(UnreadableError, match="over 64 MiB when decompressed"):
        read_any("a", kind, bomb)
    declared = bytearray(bomb)  # one that says it is small
    directory = declared.rindex(b"PK\x01\x02")
    declared[directory + 24 : directory + 28] = (100).to_bytes(4, "little")
    with pytest.raises(UnreadableError, match="broken"):
        read_any("a", kind, bytes(declared))
    with pytest.raises(UnreadableError, match="broken"):
        read_any("a", kind, b"PK\x03\x04 nothing")
    with pytest.raises(UnreadableError, match=rf"not an? {kind.upper()} file"):
        read_any("a", kind, archive(other=b"a"))


def test_an_xml_whose_entities_would_be_gigabytes() -> None:
    entities = "<!ENTITY a0 'aaaaaaaaaa'>"
    entities += "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 12))
    text = ODT.replace('<?xml version="1.0"?>', f"<!DOCTYPE a [{entities}]>")
    bomb = archive(**{"content.xml": text.replace("leaves", "&a11;")})
    with pytest.raises(UnreadableError, match=r"broken: .*entity"):
        office.read_odt(bomb)
    slide = f"<!DOCTYPE a [{entities}]><p><sldId>&a11;</sldId></p>"
    with pytest.raises(UnreadableError, match=r"broken: .*entity"):
        office.read_pptx(archive(**{"ppt/presentation.xml": slide}))
