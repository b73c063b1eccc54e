"""Thread settings for forked processes, which keep only one of their parent's threads.

OpenMP would wait forever for the others, in FAISS's searches and torch's training.
"""

from __future__ import annotations

import sys

OPENMP_LIBRARIES = {"faiss": "omp_set_num_threads", "torch": "set_num_threads"}
"""Libraries that bundle OpenMP -> their function that sets its number of threads."""


def use_one_thread() -> None:
    """Restrict loaded libraries to one thread, as a forked process requires."""
    for library, setter in OPENMP_LIBRARIES.items():
        set_threads = getattr(sys.modules.get(library), setter, None)
        if set_threads is not None:
            set_threads(1)
