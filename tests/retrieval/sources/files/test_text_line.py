"""Superscripts and readings, in each format that has them."""

from __future__ import annotations

import pytest

from slimdex.retrieval.lexical.tokens import words_in
from slimdex.retrieval.sources.files.formats import html_pages, markdown
from slimdex.retrieval.sources.files.formats.office_opendocument import read_odf
from slimdex.retrieval.sources.files.formats.office_openxml import read_docx

from .office_files import archive, docx

HALF = "<mfrac><mn>1</mn> <mn>2</mn></mfrac>"
SUM = "<mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow>"
HTML = [
    ("1.5×10<sup>6</sup> kettles", "1.5×10^6 kettles"),
    ("10<sup>−6</sup> or 10<sup>+<b>6</b></sup>", "10^−6 or 10^+6"),
    ("Talbot<sup>14</sup>.<sup>15</sup>", "Talbot^14.^15"),
    ("Talbot<sup><a href=#n>14</a></sup>", "Talbot^14"),
    ("Talbot <sup>14</sup> <sup>14</sup>C", "Talbot 14 14C"),
    ("x<sub>1</sub><sup>2</sup>, x1<sub>2</sub>", "x1^2, x1_2"),
    ("H<sub>2</sub>O, 1<sup>st</sup>, M<sup>me</sup>", "H2O, 1st, Mme"),
    ("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</rt></ruby>を", "漢字(かんじ)を"),
    ("<ruby>東<rt>とう</rt></ruby><ruby>京<rt>きょう</rt></ruby>へ", "東京(とうきょう)へ"),
    ("<ruby><rb>東</rb><rb>京</rb><rt>とう</rt><rt>きょう</rt></ruby>", "東京(とうきょう)"),
    ("<ruby><rb>東<rb>京<rtc><rt>とう<rt>きょう</ruby>", "東京(とうきょう)"),
    ("<ruby>東京<rtc>Tokyo</rtc></ruby>へ", "東京(Tokyo)へ"),
    ("<ruby>\n漢 <rt>かん</rt>\n字 <rt>じ</rt>\n</ruby>を", "漢字(かんじ)を"),
    ("<ruby>New York<rt>NYC</rt></ruby> is", "New York(NYC) is"),
    ("<ruby>漢<rt>かん</rt></ruby> <ruby>字<rt>じ</rt></ruby>", "漢(かん) 字(じ)"),
    (f"a <math><mn>2</mn> {HALF}</math> cup", "a 2 1/2 cup"),
    ("<math><msup><mn>10</mn><mrow><mo>−</mo><mn>6</mn></mrow></msup></math>", "10^−6"),
    ("<math><mroot><mn>8</mn><mn>3</mn></mroot></math>", "8^(1/3)"),
    (f"<math><mfrac>{SUM}<mn>2</mn></mfrac><msqrt>{SUM}</msqrt></math>", "(a+b)/2√(a+b)"),
    (
        "<math><munderover><mo>∑</mo><mn>1</mn><mi>n</mi></munderover><mi>sin</mi><mi>t</mi></math>",
        "∑_1^n sin t",
    ),
    ("<math><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr></math>", "a b"),
    (f"<math><semantics>{HALF}<annotation>1 \\over 2</annotation></semantics></math>", "1/2"),
]
"""HTML of a line -> its text."""


@pytest.mark.parametrize(("line", "text"), HTML)
def test_html_and_html_in_markdown(line: str, text: str) -> None:
    assert html_pages.read(f"<p>{line}".encode()).text == text
    assert html_pages.text_of(line) == text
    assert markdown.read(f"So {line}").text == f"So {text}"
    assert markdown.read(f"| a |\n|---|\n| {line.replace(chr(10), '')} |").text == f"a\n{text}"


def test_superscripts_by_style_and_of_notes() -> None:
    raised = "<span style='font-size: 70%; vertical-align: super'>6</span>"
    page = f"<p>10{raised} a<a role=doc-noteref>1</a>"
    assert html_pages.read(page.encode()).text == "10^6 a^1"


def test_words_beside_numbers_are_words() -> None:
    for text in ("1.5×10^6", "Talbot^14"):
        assert "106" not in words_in(text).split()
    assert words_in("Talbot^14").split()[0] == "talbot"


DOCX = '<r><rPr><vertAlign val="{}"/></rPr><t>{}</t></r>'
RUBY = "<r><ruby><rt><r><t>{}</t></r></rt><rubyBase><r><t>{}</t></r></rubyBase></ruby></r>"


def test_docx() -> None:
    number = "<r><t>10</t></r>" + DOCX.format("superscript", "-") + DOCX.format("superscript", "6")
    water = "<r><t>, H</t></r>" + DOCX.format("subscript", "2") + "<r><t>O</t></r>"
    changed = (
        '<r><rPr><rPrChange><rPr><vertAlign val="superscript"/></rPr></rPrChange></rPr><t>7</t></r>'
    )
    name = RUBY.format("とう", "東") + RUBY.format("きょう", "京") + "<r><t>へ</t></r>"
    found = read_docx(
        docx(f"<p>{number}{water}</p><p>{'<r><t>10</t></r>'}{changed}</p><p>{name}</p>")
    )
    assert found.text == "10^-6, H2O\n\n107\n\n東京(とうきょう)へ"


def test_odt() -> None:
    style = '<st:style st:name="{}"><st:text-properties st:text-position="{}"/></st:style>'
    span = '<t:span t:style-name="{}">{}</t:span>'
    ruby = "<t:ruby><t:ruby-base>{}</t:ruby-base><t:ruby-text>{}</t:ruby-text></t:ruby>"
    content = (
        '<o:document-content xmlns:o="urn:o" xmlns:st="urn:st" xmlns:t="urn:t">'
        f"<o:automatic-styles>{style.format('A', 'super 58%')}{style.format('B', '-33% 58%')}"
        f"{style.format('C', '0% 100%')}</o:automatic-styles><o:body>"
        f"<t:p>10{span.format('A', '6')} 10{span.format('C', '7')} 10{span.format('B', '2')}</t:p>"
        f"<t:p>{ruby.format('東', 'とう')}{ruby.format('京', 'きょう')}へ</t:p></o:body>"
        "</o:document-content>"
    )
    found = read_odf(archive(**{"content.xml": content}))
    assert found.text == "10^6 107 10_2\n\n東京(とうきょう)へ"
