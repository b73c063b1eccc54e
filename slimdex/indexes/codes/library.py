"""FAISS, loaded so that its threads of OpenMP sleep while they wait.

They spin otherwise. Beside two busy processes, on two processors, training of codes took seven
times the processor time, and 16 queries at once three times. OpenMP reads the variable when it is
loaded, so programs and other libraries keep their own setting.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

POLICY = "OMP_WAIT_POLICY"


@contextmanager
def _sleeping_threads() -> Iterator[None]:
    if POLICY in os.environ:
        yield
        return
    os.environ[POLICY] = "PASSIVE"
    try:
        yield
    finally:
        del os.environ[POLICY]


with _sleeping_threads():
    import faiss as faiss
