"""Errors that a caller can act on. Any other exception is a bug."""

from collections.abc import Iterable


class SlimdexError(Exception):
    """Base class; the message states what is wrong and what was expected."""


class InputError(SlimdexError, ValueError):
    """Invalid value from the caller; the message states it and what was expected."""


class EncoderError(InputError):
    """Encoder that an index names but can't be opened; the message is for whoever has its files."""


class CorruptError(SlimdexError):
    """File that is damaged, incomplete, or not of the kind that its name says."""


class InUseError(SlimdexError):
    """Index in use by another process; it may be free later."""


class UnreadableError(SlimdexError, OSError):
    """Index unreadable at the moment: disk or memory failed, but the content may be intact."""


def shorten(text: str, length: int = 200) -> str:
    """Quote a text for a message, cut to `length` characters.

    >>> shorten("year > 1990", 4)
    "'year'..."
    """
    return repr(text) if len(text) <= length else f"{text[:length]!r}..."


def short_repr(value: object) -> str:
    """Show a value of the wrong type in a message, cut to 40 characters.

    >>> short_repr([1990] * 9)
    '[1990, 1990, 1990, 1990, 1990, 1990, 199...'
    """
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise `InputError` unless a value is one of the choices.

    >>> check_choice("reducer", "PCA", ["whitening", "pca"])
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: reducer='PCA'; expected one of whitening, pca
    """
    names = [*choices]
    if value not in names:
        raise InputError(f"{name}={short_repr(value)}; expected one of {', '.join(names)}")


def counted(number: int, noun: str) -> str:
    """Return a number with a noun, which gets an "s" unless there is one.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
