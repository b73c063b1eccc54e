"""Forks: a forked process has one of its parent's threads, and none of those of libraries.

It uses nothing that its parent has open. `Index` and encoders say so, and what is here lets it open
files of its own.
"""

from __future__ import annotations

import os
import sys
from importlib import __import__ as python_import
from threading import get_ident
from types import FrameType
from typing import Any, TypeVar
from weakref import ref

OPENMP_LIBRARIES = {"faiss": "omp_set_num_threads", "torch": "set_num_threads"}
"""Libraries that bundle OpenMP -> their function that sets its number of threads.

OpenMP would wait forever for the missing threads, in FAISS's searches and torch's training.
"""

IMPORT_FILE = python_import.__code__.co_filename
"""File name in the frames of Python's import system."""

T = TypeVar("T")
_FOREIGN: dict[int, ref[Any]] = {}
"""Objects of other libraries that have threads of their own, by their number.

A `WeakSet` can't be read while other threads add to it.
"""


def not_inherited(made: T) -> T:
    """Mark an object of another library that forked processes must neither use nor free; return it.

    The mark is removed when this process frees the object.
    """
    number = id(made)
    _FOREIGN[number] = ref(made, lambda _: _FOREIGN.pop(number, None))
    return made


def _in_child() -> None:
    """In a forked process, keep inherited objects from being freed, and use one thread."""
    for foreign in [*_FOREIGN.values()]:
        _keep_forever(foreign())
    _FOREIGN.clear()
    use_one_thread()


def _keep_forever(inherited: Any) -> None:
    """Add a reference, so that an object is never freed, even when Python ends.

    Freeing it would wait for threads that a forked process lacks, or end it with a signal.
    """
    import ctypes  # only in forks

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


def others_import() -> bool:
    """Return whether other threads are importing modules, which would stay locked in a fork."""
    return any(
        thread != get_ident() and _is_importing(frame)
        for thread, frame in sys._current_frames().items()  # noqa: SLF001, documented
    )


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame belongs to an import."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORT_FILE:
            return True
        frame = frame.f_back
    return False


def use_one_thread() -> None:
    """Restrict loaded libraries to one thread, as a forked process requires."""
    for library, setter in OPENMP_LIBRARIES.items():
        set_threads = getattr(sys.modules.get(library), setter, None)
        if set_threads is not None:
            set_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
