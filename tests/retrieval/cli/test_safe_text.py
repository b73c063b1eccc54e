"""What a terminal would obey or hide never reaches it as it is."""

from __future__ import annotations

import json
import unicodedata

from slimdex.retrieval.cli.safe_text import DECEIVING, json_escaped

WRITTEN = {0x200C, 0x200D, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
WRITTEN |= set(range(0x600, 0x606))
"""Format characters that belong to scripts: Persian, emoji, numbers in Arabic and Kaithi."""


def test_every_control_and_format_character_but_those_of_scripts() -> None:
    categories = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in categories:
            assert bool(DECEIVING.match(chr(code))) == (code not in WRITTEN), hex(code)
        elif DECEIVING.match(chr(code)):
            assert unicodedata.category(chr(code)) == "Cn", hex(code)  # not assigned yet


def test_json_stays_json() -> None:
    value = {"a\u2028": ["\x1b\x7f\x9b\u202e\U000e0041", "é日本"], "b": "\ud800"}
    text = json_escaped(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not DECEIVING.search(text)
    assert "é日本" in text
