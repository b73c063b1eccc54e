"""Forks: a forked process has one of its parent's threads, and renews what others used.

Locks between threads are here, since forked processes do not inherit them.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import TIMEOUT_MAX, Condition, Lock, RLock
from typing import Any, Protocol, TypeVar
from weakref import ref

OPENMP_LIBRARIES = {"faiss": "omp_set_num_threads", "torch": "set_num_threads"}
"""Libraries that bundle OpenMP -> their function that sets its number of threads.

OpenMP would wait forever for the missing threads, in FAISS's searches and torch's training.
"""


class Renewable(Protocol):
    """Object that each forked process renews.

    If a fork has to wait for it, it has the methods `before_fork` and, for the parent,
    `after_fork`.
    """

    def in_fork(self) -> None:
        """Renew it; called in the forked process, before any other thread begins."""


T = TypeVar("T", bound=Renewable)
V = TypeVar("V")
_RENEWED: dict[int, ref[Any]] = {}
"""Objects by their number. A `WeakSet` can't be read while other threads add to it."""
_FOREIGN: dict[int, ref[Any]] = {}
"""Objects of other libraries that have threads of their own, by their number."""
_AWAITED = list[Any]()
"""Objects for which the running fork has waited."""
_FORKING = Lock()
"""Held while a thread forks."""


def renewed(instance: T) -> T:
    """Register an object, which each forked process then renews; return it."""
    number = id(instance)
    _RENEWED[number] = ref(instance, lambda _: _RENEWED.pop(number, None))
    return instance


def _living() -> list[Any]:
    """Registered objects that still exist."""
    instances = [reference() for reference in [*_RENEWED.values()]]
    return [instance for instance in instances if instance is not None]


def not_inherited(instance: V) -> V:
    """Register an object that forked processes must neither use nor free; return it."""
    number = id(instance)
    _FOREIGN[number] = ref(instance, lambda _: _FOREIGN.pop(number, None))
    return instance


class cached_property(functools.cached_property[V]):
    """`functools.cached_property` with a lock that forked processes renew.

    Before Python 3.12 a forked process would wait for it forever.
    """

    def __init__(self, function: Callable[[Any], V]) -> None:
        super().__init__(function)
        renewed(self)

    def in_fork(self) -> None:
        """Renew the lock of all objects."""
        self.lock = RLock()


class ThreadLock:
    """Reentrant lock; in a forked process it is free, unless the thread that forked holds it.

    >>> lock = ThreadLock()
    >>> with lock, lock:
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = RLock()
        renewed(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    @contextmanager
    def held(self, seconds: float) -> Iterator[bool]:
        """Hold the lock, or yield False if other threads hold it for longer than `seconds`."""
        is_held = self._lock.acquire(timeout=min(seconds, TIMEOUT_MAX))
        try:
            yield is_held
        finally:
            if is_held:
                self._lock.release()

    def in_fork(self) -> None:
        """Take it from threads that a forked process lacks."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = RLock()


class SharedLock:
    """Readers-writer lock; a waiting writer precedes later readers.

    Not reentrant: its holder must not acquire it again. A fork waits for the writer: what it writes
    would stay incomplete in the forked process.

    >>> lock = SharedLock()
    >>> with lock.shared(), lock.shared():
    ...     pass
    >>> with lock.exclusive():
    ...     pass
    """

    def __init__(self) -> None:
        self.in_fork()
        renewed(self)

    def in_fork(self) -> None:
        """Take it from threads that a forked process lacks."""
        self._changed = Condition()
        self._readers = 0
        self._waiting = 0
        self._writing = False

    def before_fork(self) -> None:
        """Wait for the writer, as a reader."""
        self.__enter__()

    def after_fork(self) -> None:
        """Let writers go on."""
        self.__exit__()

    def shared(self) -> SharedLock:
        """Return the lock itself, which a `with` holds together with other readers."""
        return self

    def __enter__(self) -> None:
        with self._changed:
            while self._writing or self._waiting:
                self._changed.wait()
            self._readers += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._readers -= 1
            if not self._readers:
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock as the writer."""
        with self._changed:
            self._waiting += 1
            try:
                while self._writing or self._readers:
                    self._changed.wait()
            finally:
                self._waiting -= 1
                self._changed.notify_all()  # if Ctrl-C ended the wait
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()


def _before() -> None:
    _FORKING.acquire()
    _wait_for_imports()
    awaited = [each for each in _living() if hasattr(each, "before_fork")]
    # Locks first: their holders may still begin work to wait for, such as matrix products.
    for each in sorted(awaited, key=lambda each: not isinstance(each, SharedLock)):
        each.before_fork()
        _AWAITED.append(each)


def _wait_for_imports() -> None:
    """Wait for the modules that other threads import: a forked process would wait forever."""
    seen = set[str]()  # those that stay are imported by this thread
    while names := {*filter(_is_imported_now, [*sys.modules])} - seen:
        for name in names:
            with suppress(Exception):  # the other thread gets it, too
                import_module(name)
        seen |= names


def _is_imported_now(name: str) -> bool:
    """Return whether a thread is importing a module."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _in_parent() -> None:
    while _AWAITED:
        _AWAITED.pop().after_fork()
    _FORKING.release()


def _in_child() -> None:
    _FORKING.release()
    _AWAITED.clear()
    for foreign in [*_FOREIGN.values()]:
        _keep_forever(foreign())
    _FOREIGN.clear()
    for each in _living():
        each.in_fork()
    use_one_thread()


def _keep_forever(inherited: Any) -> None:
    """Keep an object even when Python ends: it would wait for its threads, or end with a signal."""
    import ctypes  # few programs fork

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


def use_one_thread() -> None:
    """Restrict loaded libraries to one thread, as a forked process requires."""
    for library, setter in OPENMP_LIBRARIES.items():
        set_threads = getattr(sys.modules.get(library), setter, None)
        if set_threads is not None:
            set_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
