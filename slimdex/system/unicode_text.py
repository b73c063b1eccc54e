"""Unicode text, which UTF-8 can express.

JSON may contain half an emoji (``"\\ud83d"``), and arguments and names of files may contain bytes
that are not UTF-8: Python makes lone surrogates of both.
"""

from __future__ import annotations

from typing import Any

from slimdex.errors import InputError, shorten

EXPECTED = "expected text in UTF-8"


def check_unicode(value: Any, what: str) -> None:
    r"""Raise `InputError` if a text is not Unicode.

    Parameters
    ----------
    value : a text, or lists and dicts of texts and other values, whose keys are checked too.
    what : name of the value in the message.

    >>> check_unicode({"ids": ["7", "8\ud83d"]}, "the body")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: the body, ids: '8\ud83d' is not Unicode: half a character ...
    """
    waiting = [(what, value)]
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{name}: {shorten(item, 100)} is not Unicode: half a character at "
                    f"{error.start + 1:,}; {EXPECTED}"
                ) from None
        elif isinstance(item, dict):
            waiting += [(f"{name}, {key}", part) for key, part in item.items()]
            # Keys are appended last and so checked first, since names of values contain them.
            waiting += [(name, key) for key in item]
        elif isinstance(item, list | tuple):
            waiting += [(name, part) for part in item]
