"""Forks: a forked process has one of its parent's threads, and renews what others used."""

from __future__ import annotations

import os
import sys
from threading import Lock
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

OPENMP_LIBRARIES = {"faiss": "omp_set_num_threads", "torch": "set_num_threads"}
"""Libraries that bundle OpenMP -> their function that sets its number of threads.

OpenMP would wait forever for the missing threads, in FAISS's searches and torch's training.
"""


class Renewable(Protocol):
    """What a forked process renews.

    If a fork has to wait for it, it has the methods `before_fork` and, for the parent,
    `after_fork`.
    """

    def in_fork(self) -> None:
        """Renew it; called in the forked process, before any other thread begins."""


T = TypeVar("T", bound=Renewable)
_RENEWED: WeakSet[Any] = WeakSet()
_AWAITED = list[Any]()
"""Those for which the running fork has waited."""
_FORKING = Lock()
"""Held while a thread forks."""


def renewed(made: T) -> T:
    """Return an object, which each forked process renews from now on; it must be hashable."""
    _RENEWED.add(made)
    return made


def _before() -> None:
    _FORKING.acquire()
    for each in [each for each in _RENEWED if hasattr(each, "before_fork")]:
        each.before_fork()
        _AWAITED.append(each)


def _in_parent() -> None:
    while _AWAITED:
        _AWAITED.pop().after_fork()
    _FORKING.release()


def _in_child() -> None:
    _FORKING.release()
    _AWAITED.clear()
    for each in [*_RENEWED]:
        each.in_fork()
    use_one_thread()


def use_one_thread() -> None:
    """Restrict loaded libraries to one thread, as a forked process requires."""
    for library, setter in OPENMP_LIBRARIES.items():
        set_threads = getattr(sys.modules.get(library), setter, None)
        if set_threads is not None:
            set_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
