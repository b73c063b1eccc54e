"""Characters of symbol fonts, which office files store by their number in the font."""

from __future__ import annotations

import re

UNKNOWN = "\N{BULLET}"
"""Stands for a picture of a symbol font that has no character here."""
PRIVATE = re.compile("[\uf020-\uf0ff]")
"""Where office files store the characters of symbol fonts."""


def _numbered(first: int, characters: str) -> dict[int, str]:
    return dict(enumerate(characters, start=first))


SYMBOL = {
    **_numbered(0x20, " !∀#∃%&∋()∗+,−./0123456789:;<=>?"),
    **_numbered(0x40, "≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_"),
    **_numbered(0x60, "‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"),
    **_numbered(0xA0, "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…|—↵"),
    **_numbered(0xC0, "ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓"),
    **_numbered(0xE0, "◊⟨®©™∑"),
    **_numbered(0xF1, "⟩∫"),
}
"""Adobe's Symbol: number -> character."""
WINGDINGS = {
    0x20: " ",
    **_numbered(0x28, "☎✆✉"),
    **_numbered(0x41, "✌👌👍👎☜☞☝☟"),
    **_numbered(0x4A, "☺😐☹"),
    **_numbered(0x6C, "●❍■□□❑❒⬧⧫◆❖⬥"),
    **_numbered(0x80, "⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿"),
    **_numbered(0x9E, "·•"),
    **_numbered(0xA7, "▪□"),
    0xAB: "★",
    0xD8: "➢",
    **_numbered(0xDF, "←→↑↓↖↗↙↘"),
    0xE8: "➔",
    **_numbered(0xEF, "⇦⇨⇧⇩"),
    **_numbered(0xFB, "✗✓☒☑"),
}
WINGDINGS_2 = {0x20: " ", **_numbered(0x4F, "✗✓☒☑"), 0x97: "●", 0xA3: "□"}
WINGDINGS_3 = {0x20: " ", **_numbered(0x66, "←→↑↓"), 0x7D: "▶"}
FONTS = {
    "symbol": SYMBOL,
    "wingdings": WINGDINGS,
    "wingdings 2": WINGDINGS_2,
    "wingdings 3": WINGDINGS_3,
    "webdings": {0x20: " ", 0x61: "✓", 0x63: "□", 0x67: "■", 0x72: "✗"},
}
"""Name of a font in lower case -> its characters by number."""


def symbol(font: str, number: str) -> str:
    """Character of a hexadecimal number in a font; "" if the number is invalid.

    >>> symbol("Symbol", "F0B0"), symbol("Wingdings", "F0E0"), symbol("Arial", "00E9")
    ('°', '→', 'é')
    """
    try:
        code = int(number, 16)
        character = chr(code)
    except (ValueError, OverflowError):
        return ""
    if known := FONTS.get(font.strip().lower()):
        return known.get(code & 0xFF, UNKNOWN)
    return chr(code & 0xFF) if PRIVATE.match(character) else character


def plain(text: str, font: str) -> str:
    """Replace the characters of a symbol font in a text of that font.

    >>> plain("20 \\uf0b0C", "Symbol"), plain("20 \\uf0b0C", "Arial")
    ('20 °C', '20 \\uf0b0C')
    """
    if not PRIVATE.search(text) or font.strip().lower() not in FONTS:
        return text
    return PRIVATE.sub(lambda found: symbol(font, f"{ord(found[0]):X}"), text)
