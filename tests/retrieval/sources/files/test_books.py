"""PDF, DOCX, ODT, PPTX and EPUB: exact text and parts, and files that are made to do harm."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import product
from pathlib import Path
from unicodedata import normalize
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.sources.files.formats import epub, pdf
from slimdex.retrieval.sources.files.formats.office_opendocument import read_odf
from slimdex.retrieval.sources.files.formats.office_openxml import read_docx, read_pptx
from slimdex.retrieval.sources.files.formats.readers import read as read_any
from slimdex.retrieval.sources.files.limits import UnreadableError
from slimdex.retrieval.sources.files.outline import Outline

from .office_files import (
    STRICT,
    TRANSITIONAL,
    archive,
    docx,
    opc,
    paragraph,
    shape,
    slide_part,
    word_part,
)
from .reading import pieces, read


def pdf_file(
    pages: list[bytes],
    *,
    trailer: bytes = b"",
    sections: bool = False,
    annotations: Sequence[bytes] = (),
) -> bytes:
    """A PDF with these streams of its pages, compressed, and two sections if asked for.

    The last page has the annotations. PDFium finds its objects without a table of them.
    """
    count = len(pages)
    form = b" ".join(b"%d 0 R" % (1000 + i) for i, a in enumerate(annotations) if b"/FT" in a)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [%s] >>%s >>"
        % (form, b" /Outlines 4 0 R" if sections else b""),
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
    own = b" ".join(b"%d 0 R" % (1000 + i) for i in range(len(annotations)))
    last = 20 + 2 * (count - 1)
    numbered[last] = numbered[last].removesuffix(b">>") + b"/Annots [%s] >>" % own
    numbered |= {1000 + i: b"<< /Type /Annot %s >>" % each for i, each in enumerate(annotations)}
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % each for each in numbered.items())
    return b"%PDF-1.4\n" + body + b"trailer\n<< /Root 1 0 R /Info 7 0 R %s >>\n" % trailer


AT = b"/Rect [10 10 90 30] "


def test_fields_of_a_form_and_remarks_are_text() -> None:
    widget = b"/Subtype /Widget " + AT
    of_forms = [
        widget + b"/FT /Tx /T (name) /V (Wilhelmina Kettle)",
        widget + b"/FT /Ch /Ff 131072 /T (fuel) /Opt [(gas) (district heat)] /V (district heat)",
        widget + b"/FT /Btn /T (yes) /V /Yes /AS /Yes",
        widget + b"/FT /Tx /T (hidden) /V (secret) /F 2",
        widget + b"/FT /Tx /T (umlaut) /V <FEFF004D00FC006C006C00650072> /F 4",
        b"/Subtype /FreeText " + AT + b"/Contents (Handed over)",
        b"/Subtype /Text " + AT + b"/Contents (Ask about\\rthe deposit)",
        b"/Subtype /Highlight " + AT + b"/Contents (Is that so?) /QuadPoints [1 1 2 1 1 2 2 2]",
        b"/Subtype /Popup " + AT + b"/Contents (Is that so?)",
        b"/Subtype /Link " + AT + b"/Contents (a link)",
    ]
    added = "Wilhelmina Kettle\ndistrict heat\nMüller\nHanded over\nAsk about\nthe deposit\n"
    added += "Is that so?"
    two = pdf.read(pdf_file([lines(b"One"), lines(b"Name of the tenant:")], annotations=of_forms))
    assert two.text == f"One\n\nName of the tenant:\n{added}"
    assert [part.page for part in two.parts] == [1, 2]
    assert pdf.read(pdf_file([b""], annotations=of_forms)).text == added


def lines(*said: bytes) -> bytes:
    return b"BT /F 12 Tf 20 200 Td 14 TL " + b" ".join(b"(%s) Tj T*" % s for s in said) + b" ET"


PICTURE = b"q 300 0 0 300 0 0 cm BI /W 2 /H 1 /BPC 8 /CS /G ID \x00\xff EI Q"


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


def page(content: bytes) -> str:
    return pdf.read(pdf_file([b"BT /F 10 Tf " + content + b" ET"])).text


def cells(*rows: str) -> bytes:
    """Rows of cells of a line each, 80 points apart."""
    placed = [
        b"1 0 0 1 %d %d Tm (%s) Tj" % (20 + 80 * column, 250 - 20 * row, cell.encode())
        for row, line in enumerate(rows)
        for column, cell in enumerate(line.split())
    ]
    return b" ".join(placed)


TURNED = {
    0: b"1 0 0 1 0 0",
    90: b"0 1 -1 0 300 0",
    180: b"-1 0 0 -1 300 300",
    270: b"0 -1 1 0 0 300",
}


@pytest.mark.parametrize(("angle", "turn"), TURNED.items())
def test_lines_and_cells_of_turned_pages(angle: int, turn: bytes) -> None:
    table = ("Valve 12.50 3 A", "Seal 1 2 4", "Gasket 100 200 B")
    prose = (b"must be", b"descaled every spring", b"by the", b"cook")
    content = b"q %s cm BT /F 10 Tf %s ET %s Q" % (turn, cells(*table), lines(*prose))
    data = pdf_file([content]).replace(b"/MediaBox", b"/Rotate %d /MediaBox" % angle)
    expected = [line.replace(" ", "\t") for line in table] + [line.decode() for line in prose]
    assert pdf.read(data).text.split("\n") == expected


DIVIDED = [
    ("of the instal-|lation", "of the installation"),
    ("part AB-|1234", "part AB-1234"),
    ("by Smith-|Jones, UTF-|8", "by Smith-Jones, UTF-8"),
    ("in 2019-|2020", "in 2019-2020"),
    ("a state-of-the-|art pump", "a state-of-the-art pump"),
    ("self-regu-|lating, regulating", "self-regulating, regulating"),
    ("a re-|signed contract is re-signed", "a re-signed contract is re-signed"),
    ("for high-|lights, high and with lights", "for high-lights, high and with lights"),
    ("HEAT-|ING and HEATING", "HEATING and HEATING"),
]
"""Lines of a page -> their text."""


@pytest.mark.parametrize(("text", "whole"), DIVIDED)
def test_hyphens_at_the_end_of_a_line(text: str, whole: str) -> None:
    shown = pdf.read(pdf_file([lines(*text.encode().split(b"|"))]))
    assert shown.text == whole


def test_accents_and_ligatures_of_tex_are_letters() -> None:
    assert page(b"20 200 Td [(G\\310) 333 (odel)] TJ") == "G\u00f6del"
    assert page(b"20 200 Td (l\\302eau) Tj") == "l\u00b4eau"  # beside the letter
    assert page(b"20 200 Td (de\\014nition, e\\016cient, re\\015ect) Tj") == (
        "definition, efficient, reflect"
    )


def test_text_beyond_the_edges_of_a_page_is_left_out() -> None:
    assert page(b"20 200 Td (Tea) Tj 400 20 Td (a mark of the printer) Tj") == "Tea"


def test_pdf_whose_title_was_written_by_a_program() -> None:
    data = pdf_file([lines(b"Leaves"), b""], sections=True)
    assert pdf.read(data.replace(b"Brewing tea", b"Document1")).title == "Leaves"
    assert pdf.read(data.replace(b"Brewing tea", b"")).title == ""


TITLES = {
    **dict.fromkeys(
        ["Microsoft Word - tea.docx", "PowerPoint-Pr\u00e4sentation", "Presentation1"], ""
    ),
    **dict.fromkeys(
        ["Pr\u00e9sentation PowerPoint", "untitled", "C:\\tea", "Tea v2.indd", "12", "()"], ""
    ),
    **{
        title: title
        for title in ("Tea", "Using PowerPoint", "Word by word", "Documents", "Tea 2.0")
    },
}


@pytest.mark.parametrize(("stated", "title"), TITLES.items())
def test_titles_that_programs_write(stated: str, title: str) -> None:
    assert Outline().title(stated) == title


def test_pdf_that_is_locked_or_broken(tmp_path: Path) -> None:
    locked = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >> /ID [<00> <00>]" % (
        b"00" * 32,
        b"00" * 32,
    )
    (tmp_path / "locked.pdf").write_bytes(pdf_file([lines(b"a")], trailer=locked))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (tmp_path / "blank.pdf").write_bytes(pdf_file([b""]))
    (tmp_path / "scan.pdf").write_bytes(pdf_file([PICTURE]))
    (tmp_path / "fine.pdf").write_bytes(pdf_file([lines(b"Fine.")]))
    found, said = read(tmp_path)
    assert found["fine.pdf"].text == "Fine."
    assert said == [
        "could not be read: broken.pdf (broken PDF), locked.pdf (encrypted)",
        "left out, without text: blank.pdf",
        "scanned pages without text, which `ocrmypdf --skip-text` adds: scan.pdf (1 of 1)",
    ]


def test_scanned_pages_among_pages_of_text(tmp_path: Path) -> None:
    blank, stamped = b"", PICTURE + b" " + lines(b"Received.")
    (tmp_path / "fine.pdf").write_bytes(pdf_file([lines(b"Fine."), blank, stamped]))
    (tmp_path / "one.pdf").write_bytes(pdf_file([lines(b"Tea."), PICTURE]))
    found, said = read(tmp_path)
    assert [part.page for part in found["fine.pdf"].parts] == [1, 3]
    assert found["one.pdf"].text == "Tea."
    (line,) = said
    assert line.startswith("scanned pages without text")
    assert line.endswith(": one.pdf (1 of 2)")


SPELLINGS = {
    "plain": lambda name: name,
    "absolute": lambda name: f"/word/{name}",
    "percent": lambda name: name.replace("t", "%74").replace("2", "%32"),
    "other": lambda name: f"..\\WORD\\{name}",
}
"""Ways to write a target next to word/document2.xml."""


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_parts_of_docx_are_found_by_their_relations(spell: Callable[[str], str]) -> None:
    variant = STRICT if spell("x") == "x" else TRANSITIONAL
    others = {"footnotes": "n/fn1.xml", "endnotes": "e.xml", "comments": "reviews.xml"}
    styles = '<w:style w:styleId="T9"><w:name w:val="heading 1"/></w:style>'
    heading = '<w:p><w:pPr><w:pStyle w:val="T9"/></w:pPr><w:r><w:t>Boiler</w:t></w:r></w:p>'
    main = word_part(f"<w:body>{heading}{paragraph('Main.')}</w:body>", variant=variant)
    parts = {
        "word/document2.xml": main,
        "word/document.xml": word_part(paragraph("Not this."), variant=variant),
        "word/s t.xml": word_part(styles, "styles", variant),
    }
    for kind, name in others.items():
        parts[f"word/{name}"] = word_part(paragraph(f"Of {kind}."), kind, variant)
    listed = [(kind, kind, spell(name)) for kind, name in others.items()]
    listed += [("s", "styles", "s%20t.xml"), ("h", "hyperlink", "http://x.y/")]
    first = "/word/document2.xml" if spell("x") == "x" else f"word/{spell('document2.xml')}"
    first = spell("document2.xml") if spell("x").startswith("/") else first
    file = opc(parts, {"": [("r", "officeDocument", first)], "word/document2.xml": listed}, variant)
    assert pieces(read_docx(file)) == [
        (("Boiler",), "", "Boiler\n\nMain."),
        ((), "", "Of footnotes.\n\nOf endnotes.\n\nOf comments."),
    ]


def test_files_embedded_as_text() -> None:
    chunks = {
        "a.html": "<html><body><p>Boil <b>it</b>.</p></body></html>",
        "b.mht": "MIME-Version: 1.0\nContent-Type: text/html\n\n<p>Pour it.</p>",
        "c.txt": "Drink it.",
    }
    body = "".join(f'<altChunk r:id="{name}"/>' for name in chunks)
    relations = {
        "": [("r", "officeDocument", "d.xml")],
        "d.xml": [(name, "aFChunk", name) for name in chunks],
    }
    found = read_docx(opc({"d.xml": word_part(f"<body>{body}</body>"), **chunks}, relations))
    assert found.text == "Boil it.\n\nPour it.\n\nDrink it."


def test_parts_of_a_slide_are_found_by_their_relations() -> None:
    def cached(name: str, kind: str, value: str) -> str:
        point = f"<c:pt><c:v>{value}</c:v></c:pt>"
        cache = f"<c:{kind}Cache>{point}</c:{kind}Cache>"
        return f"<c:{name}><c:{kind}Ref><c:f>A1</c:f>{cache}</c:{kind}Ref></c:{name}>"

    def run(text: str) -> str:
        return f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"

    frame = "<p:graphicFrame><a:graphic>{}</a:graphic></p:graphicFrame>"
    slide = shape("Heating", "title") + frame.format('<c:chart r:id="c"/>')
    slide += frame.format('<dgm:relIds r:dm="d" r:lo="l"/>')
    slide += '<p:pic><p:nvPicPr><p:cNvPr descr="A red boiler"/></p:nvPicPr></p:pic>'
    chart = f"<c:title><c:tx><c:rich>{run('Costs')}</c:rich></c:tx></c:title>"
    for series in ("Gas", "Oil"):
        chart += (
            cached("tx", "str", series) + cached("cat", "str", "May") + cached("val", "num", "7")
        )
    parts = {
        "a.xml": slide_part('<p:sldId id="1" r:id="s"/>', "presentation"),
        "b.xml": slide_part(slide),
        "c.xml": slide_part(chart, "chart"),
        "d.xml": slide_part(f"<dgm:pt><dgm:t>{run('Fill')}</dgm:t></dgm:pt>", "data"),
        "e.xml": slide_part(shape("Say this."), "notes"),
        "f.xml": slide_part("<p:cm><p:text>Why oil?</p:text></p:cm>", "cmLst"),
    }
    of_slide = [("c", "chart", "c.xml"), ("d", "diagramData", "d.xml")]
    of_slide += [("l", "diagramLayout", "c.xml"), ("f", "comments", "f.xml")]
    of_slide += [("e", "notesSlide", "e.xml")]
    relations = {"": [("r", "officeDocument", "a.xml")], "a.xml": [("s", "slide", "b.xml")]}
    found = read_pptx(opc(parts, {**relations, "b.xml": of_slide}))
    assert found.text == (
        "Heating\n\nCosts\nGas\nMay\nOil\n\nFill\n\nA red boiler\n\nSay this.\n\nWhy oil?"
    )


RUNS = [
    ("takes 1<noBreakHyphen/>24", "takes 1-24"),
    ("boi<softHyphen/>ler", "boiler"),
    ("20 <sym font='Symbol' char='F0B0'/>C", "20 °C"),
    ("<sym font='Wingdings' char='F0FE'/> done", "• done"),
    ("a<tab/>b<ptab/>c", "a\tb\tc"),
    ("boi<lastRenderedPageBreak/>ler", "boiler"),
    ("<ruby><rt><r>kan</r></rt><rubyBase><r>漢</r></rubyBase></ruby>字", "漢(kan)字"),
    ("<rPr><rFonts ascii='Symbol'/></rPr>5 \uf06dm", "5 μm"),
]
"""Content of a run, with its texts bare -> the text."""


def in_run(content: str) -> str:
    return "<r>" + re.sub(r"(^|>)([^<]+)", r"\1<t>\2</t>", content) + "</r>"


@pytest.mark.parametrize(("run", "text"), RUNS)
def test_characters_that_are_elements(run: str, text: str) -> None:
    assert read_docx(docx(f"<p>{in_run(run)}</p>")).text == text


BOX = "<txbxContent>{}</txbxContent>"
CHOICES = (
    "<mc:AlternateContent><mc:Choice>{}</mc:Choice><mc:Choice>{}</mc:Choice>"
    "<mc:Fallback>{}</mc:Fallback></mc:AlternateContent>"
)
ONCE = BOX.format(paragraph("once"))
TABLE = "<tbl><tr><tc>{}</tc><tc>{}</tc></tr></tbl>"
FORM = "<ffData><ddList>{}<listEntry val='cold'/><listEntry val='hot'/></ddList></ffData>"
A, B, C = (f"<m:r><m:t>{letter}</m:t></m:r>" for letter in "abc")
SQUARE = "<m:dPr><m:begChr m:val='['/><m:endChr m:val=']'/></m:dPr>"
BODIES = [
    ("<p><ins><r><t>new</t></r></ins><del><r><delText>x</delText></r></del></p>", "new"),
    (f"<sdt><sdtContent>{paragraph('chosen')}</sdtContent></sdt>", "chosen"),
    (f"<p>{in_run('Out')}{BOX.format(paragraph('In'))}{in_run('side')}</p>", "In\n\nOutside"),
    (f"<p>{CHOICES.format(ONCE, ONCE, ONCE)}</p>", "once"),
    ("<p><r><drawing><wp:docPr descr='A boiler'/></drawing></r></p>", "A boiler"),
    ("<p>" + FORM.format("<result val='1'/>") + "</p>", "hot"),
    (f"<p><pPr><pPrChange><pPr><numPr/></pPr></pPrChange></pPr>{in_run('x')}</p>", "x"),
    (f"<p><pPr><numPr/></pPr>{in_run('x')}</p>", "- x"),
    (TABLE.format(paragraph("a") + TABLE.format(paragraph("b"), ONCE), "<p/>"), "a b\tonce"),
    (
        f"<tbl><tr><trPr><gridBefore val='1'/></trPr><tc><tcPr><gridSpan val='2'/></tcPr>"
        f"{paragraph('a')}</tc><tc>{paragraph('b')}</tc></tr><tr><tc><p/></tc>"
        f"<tc>{paragraph('c')}</tc><tc><p/></tc></tr></tbl>",
        "\ta\t\tb\n\tc",
    ),
    (f"<p>{A}<m:f><m:num>{B}</m:num><m:den>{C}</m:den></m:f></p>", "ab/c"),
    (f"<p><m:sSup><m:e>{A}</m:e><m:sup>{B}</m:sup></m:sSup></p>", "a^b"),
    (f"<p><m:nary><m:sub/><m:sup>{A}</m:sup><m:e>{B}</m:e></m:nary></p>", "∫^ab"),
    (f"<p><m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:e>{A}</m:e></m:nary></p>", "∑a"),
    (f"<p><m:d>{SQUARE}<m:e>{A}</m:e><m:e>{B}</m:e></m:d></p>", "[a|b]"),
    (f"<p><m:d><m:e><m:rad><m:deg/><m:e>{A}</m:e></m:rad></m:e></m:d></p>", "(√a)"),
]
"""Body of a document -> its text."""


@pytest.mark.parametrize(("body", "text"), BODIES)
def test_texts_of_a_body(body: str, text: str) -> None:
    assert read_docx(docx(body)).text == text


AROUND = [
    "<sdt><sdtContent>{}</sdtContent></sdt>",
    f"<p><r>{BOX}</r></p>",
    f"<p>{CHOICES.format(BOX, BOX, BOX)}</p>",
    TABLE.format("{}", "<p/>"),
    TABLE.format(TABLE.format("{}", "<p/>"), "<p/>"),
]
"""Surroundings of a paragraph, which may be alternatives with the same text."""


@given(
    st.lists(st.sampled_from(RUNS), min_size=1, max_size=4),
    st.lists(st.sampled_from(AROUND), max_size=3),
)
def test_no_text_is_lost_or_read_twice(runs: list[tuple[str, str]], around: list[str]) -> None:
    body = "<p>" + "".join(in_run(run) for run, _ in runs) + "</p>"
    for outer in around:
        body = outer.replace("{}", body)
    expected = "".join(text for _, text in runs)
    assert read_docx(docx(body)).text.split() == expected.split()


SHAPE = "<p:sp><p:txBody>{}</p:txBody></p:sp>"
LINE = "<a:p><a:r><a:t>{}</a:t></a:r></a:p>"
FIELD = '<a:fld type="datetime"><a:t>May</a:t></a:fld>'
SLIDES = [
    (SHAPE.format("<a:p><a:r><a:t>a</a:t></a:r><a:br/><a:r><a:t>b</a:t></a:r></a:p>"), "a b"),
    (SHAPE.format(f"<a:p>{FIELD}<a:r><a:t> 1</a:t></a:r></a:p>"), "May 1"),
    (shape("7", "sldNum") + SHAPE.format(LINE.format("a")), "a"),
    (f"<p:grpSp>{SHAPE.format(LINE.format('a'))}</p:grpSp>", "a"),
    (
        '<p:grpSp><p:nvGrpSpPr><p:cNvPr descr="Both"/></p:nvGrpSpPr><p:pic><p:nvPicPr>'
        '<p:cNvPr descr="One"/></p:nvPicPr></p:pic></p:grpSp>',
        "Both\n\nOne",
    ),
    (
        "<a:tbl><a:tr><a:tc><a:txBody>{0}</a:txBody></a:tc><a:tc><a:txBody>{0}</a:txBody></a:tc>"
        "</a:tr></a:tbl>".format(LINE.format("a")),
        "a\ta",
    ),
]
"""Shapes of a slide -> its text."""


@pytest.mark.parametrize(("shapes", "text"), SLIDES)
def test_texts_of_a_slide(shapes: str, text: str) -> None:
    parts = {"a": slide_part('<p:sldId r:id="s"/>', "presentation"), "b": slide_part(shapes)}
    relations = {"": [("r", "officeDocument", "a")], "a": [("s", "slide", "b")]}
    assert read_pptx(opc(parts, relations)).text == text


def test_files_of_another_kind_or_encrypted_are_refused() -> None:
    book = opc({"xl/w.xml": "<workbook/>"}, {"": [("r", "officeDocument", "xl/w.xml")]})
    manifest = "<m:manifest xmlns:m='urn:m'><m:encryption-data/></m:manifest>"
    locked = archive(**{"META-INF/manifest.xml": manifest, "content.xml": "locked"})
    for kind, data, why in (
        ("docx", book, "not a DOCX file"),
        ("pptx", book, "not a PPTX file"),
        ("odt", locked, "encrypted"),
    ):
        with pytest.raises(UnreadableError, match=f"^{why}"):
            read_any("a", kind, data)


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
    tea = read_odf(archive(**{"content.xml": ODT, "meta.xml": META}))
    assert (tea.title, tea.facts) == ("Brewing tea", {"author": "Ann"})
    assert pieces(tea) == [
        (("Tea",), "", "Tea\n\nSome leaves (green).\n- one"),
        (("Tea", "Table"), "", "Table\n\na\tb"),
    ]


OFFICE = (
    "urn:oasis:names:tc:opendocument:xmlns:office:1.0",
    "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0",
)
ODF_BODIES = [
    ("<p>a<s c='3'/>b<tab/>c<line-break/>d</p>", "a b c d"),
    ("<p><ruby><ruby-base>漢</ruby-base><ruby-text>kan</ruby-text></ruby>字</p>", "漢(kan)字"),
    (
        "<p>Tea<o:annotation><dc:creator>Ann</dc:creator><p>hot</p></o:annotation>.</p>",
        "Tea (hot).",
    ),
    (
        "<table><table-row><table-cell/><table-cell number-columns-repeated='2'><p>a</p>"
        "</table-cell><covered-table-cell/><table-cell><p>b</p></table-cell></table-row></table>",
        "\ta\ta\t\tb",
    ),
    (
        "<p>a <object><math xmlns='http://www.w3.org/1998/Math/MathML'><mfrac><mn>1</mn><mn>2</mn>"
        "</mfrac><annotation>1 over 2</annotation></math></object> cup</p>",
        "a 1/2 cup",
    ),
    ("<p>Out<frame><text-box><p>In</p></text-box></frame>side</p>", "In\n\nOutside"),
    ("<p>A<frame><svg:desc>red boiler</svg:desc></frame></p>", "A red boiler"),
    ("<p>A<frame><image><binary-data>QUJD</binary-data></image></frame></p>", "A"),
]
"""Body of an OpenDocument text -> its text."""


def odf(body: str) -> str:
    office, svg = OFFICE
    return (
        f'<o:document-content xmlns:o="{office}" xmlns="urn:t" xmlns:svg="{svg}" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:l="urn:l">'
        f"<o:body><o:text>{body}</o:text></o:body></o:document-content>"
    )


@pytest.mark.parametrize(("body", "text"), ODF_BODIES)
def test_texts_of_an_opendocument_body(body: str, text: str) -> None:
    assert read_odf(archive(**{"content.xml": odf(body)})).text == text
    assert read_odf(odf(body).encode()).text == text  # flat


def test_odp() -> None:
    slide = (
        "<page><frame class='outline'><text-box><list><list-item><p>Boil</p></list-item></list>"
        "</text-box></frame><frame class='title'><text-box><p>Steps</p></text-box></frame>"
        "<frame class='footer'><text-box><p>Ann</p></text-box></frame>"
        "<frame><object l:href='./Object 1'/></frame><notes><frame class='page'/>"
        "<frame class='notes'><text-box><p>Say it.</p></text-box></frame></notes></page>"
    )
    remark = "<o:annotation><dc:creator>Ann</dc:creator><p>Why?</p></o:annotation></page>"
    deck = archive(
        **{
            "META-INF/manifest.xml": "<manifest/>",
            "content.xml": odf(slide.replace("Steps", "Tea") + slide.replace("</page>", remark)),
            "meta.xml": META,
            "Object 1/content.xml": odf("<p>Costs</p>"),
        }
    )
    tea = read_odf(deck)
    assert (tea.title, tea.facts) == ("Brewing tea", {"author": "Ann", "pages": 2})
    assert pieces(tea) == [
        (("Tea",), "", "Tea\n- Boil\n\nCosts\n\nSay it."),
        (("Steps",), "", "Steps\n- Boil\n\nCosts\n\nSay it.\n\n(Why?)"),
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
    last = deck.slides.add_slide(deck.slide_layouts[5])
    last.shapes.title.text = "Leaves"
    ids = deck.slides._sldIdLst
    ids.insert(1, ids[2])  # the order of slides is not that of their files
    deck.save(str(tmp_path / "tea.pptx"))
    tea = read_pptx((tmp_path / "tea.pptx").read_bytes())
    assert tea.title == "Brewing tea"
    assert tea.facts == {"author": "Ann", "date": datetime(2024, 5, 1), "pages": 3}
    assert pieces(tea) == [
        (("Tea for all",), "", "Tea for all\n\nA short course"),
        (("Leaves",), "", "Leaves"),
        (("Steps",), "", "Steps\n- Boil\n- Pour"),
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


CHAPTER = (
    '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml" '
    'xmlns:epub="http://www.idpf.org/2007/ops"><head><title>x</title></head><body>{}</body></html>'
)
CHAPTERS = [
    (CHAPTER.format("<header><h1>One</h1></header><p>a</p><footer>b</footer>"), "One\n\na\n\nb"),
    (CHAPTER.format("<p>a</p><aside epub:type='footnote' hidden='hidden'>b</aside>"), "a\n\nb"),
    (CHAPTER.format("<p>a</p><div class='sidebar'>b</div><div id='footer'>c</div>"), "a\n\nb\n\nc"),
    (CHAPTER.format("<p>a</p><article>b</article><main>c</main><p>d</p>"), "a\n\nb\n\nc\n\nd"),
    (CHAPTER.format("<p>a<a epub:type='noteref' href='#n'>1</a>.</p>"), "a^1."),
    (CHAPTER.format("<nav epub:type='toc'><ol><li>One</li></ol></nav><p>a</p>"), "a"),
    (CHAPTER.format("<p><![CDATA[1 < 2]]> &nbsp;&#8212; <a id='x'/>b<br/>c</p>"), "1 < 2 — b\nc"),
    (CHAPTER.format("<script src='a.js'/><p>a</p><title/><p>b</p>"), "a\n\nb"),
    (CHAPTER.format("<script src='a.js'/><p>a<p>b & c"), "a\n\nb & c"),
]
"""Chapters -> their texts; the last one is not well-formed."""


@pytest.mark.parametrize(("chapter", "text"), CHAPTERS)
def test_chapters_have_no_frame_and_are_xml(chapter: str, text: str) -> None:
    assert epub.read(book("a.xhtml", "a.xhtml", chapter)).text == text


def book(href: str, entry: str, chapter: str) -> bytes:
    """A book of one chapter, with its name in the package and in the archive."""
    package = f'<p><item id="a" href="{href}"/><spine><itemref idref="a"/></spine></p>'
    return archive(
        **{
            "META-INF/container.xml": '<c><rootfile full-path="OPS/book.opf"/></c>',
            "OPS/book.opf": package,
            f"OPS/{entry}": chapter,
        }
    )


def test_names_of_chapters_in_any_form_of_unicode() -> None:
    composed, chapter = "Café.xhtml", CHAPTER.format("<p>a</p>")
    for href, entry in product((composed, normalize("NFD", composed), quote(composed)), repeat=2):
        if entry != quote(composed):
            assert epub.read(book(href, entry, chapter)).text == "a"
    undeclared = book(composed, "Cafxx.xhtml", chapter).replace(b"Cafxx", "Café".encode())
    assert epub.read(undeclared).text == "a"


@pytest.mark.slow
def test_archives_that_are_bombs_or_broken() -> None:
    names = {
        "docx": "word/document.xml",
        "odt": "content.xml",
        "pptx": "ppt/presentation.xml",
        "epub": "META-INF/container.xml",
    }
    content = b"<a>" + b"a" * (64 << 20) + b"</a>"
    bomb = archive(**dict.fromkeys(names.values(), content))
    assert len(bomb) < 1 << 19
    declared = bytearray(bomb)  # one that says it is small
    for found in re.finditer(rb"PK\x01\x02", bomb):
        declared[found.start() + 24 : found.start() + 28] = (100).to_bytes(4, "little")
    for kind in names:
        for data, message in (
            (bomb, "over 64 MiB when decompressed"),
            (bytes(declared), "broken"),
            (b"PK\x03\x04 nothing", "broken"),
            (archive(other=b"a"), rf"not an? {kind.upper()} file"),
        ):
            with pytest.raises(UnreadableError, match=message):
                read_any("a", kind, data)
