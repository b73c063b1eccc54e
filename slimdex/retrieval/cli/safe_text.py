"""Make untrusted text safe for a terminal, which obeys some characters and hides others.

A document can contain ESC sequences that move the cursor or change the window's title, and marks
that reverse the order of letters. They are shown as Python's `repr` shows them.
"""

from __future__ import annotations

import re

DECEIVING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\ud800-\udfff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e007f]"
)
"""Controls, line separators, lone surrogates and format characters, except those that scripts and
emoji need: the joiners U+200C and U+200D, and signs that enclose digits."""


def visible(text: str) -> str:
    r"""Escape every character that a terminal would obey or hide.

    >>> print(visible("a\x1b[2J\u202eb\n"))
    a\x1b[2J\u202eb\n
    >>> visible("naïve 日本 👩‍🚀")
    'naïve 日本 👩‍🚀'
    """
    return DECEIVING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def json_escaped(text: str) -> str:
    r"""Escape the same characters in JSON, where they occur only in strings.

    >>> print(json_escaped('{"a": "\u202e\x9b\U000e0041é"}'))
    {"a": "\u202e\u009b\udb40\udc41é"}
    """
    return DECEIVING.sub(lambda match: _units(match[0]), text)


def _units(character: str) -> str:
    """A character's UTF-16 units as JSON escapes."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(rf"\u{units[i : i + 4]}" for i in range(0, len(units), 4))
