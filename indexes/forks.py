"""Forks: a forked process keeps one of its parent's threads, and has to know it.

OpenMP remembers the others and waits for them for ever, in FAISS's searches and torch's training.
"""

from __future__ import annotations

import sys

OPENMP_LIBRARIES = {"faiss": "omp_set_num_threads", "torch": "set_num_threads"}
"""Libraries that bring OpenMP, and their functions that set how many threads it takes."""


def use_one_thread() -> None:
    """Let the libraries that are loaded compute in this thread, as any forked process must."""
    for library, setter in OPENMP_LIBRARIES.items():
        set_threads = getattr(sys.modules.get(library), setter, None)
        if set_threads is not None:
            set_threads(1)
