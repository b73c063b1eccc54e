"""FAISS, imported so that its OpenMP threads sleep while they wait.

By default they spin. Beside two busy processes on two processors, training took five to seven times
the processor time, and a search for 16 queries three times. OpenMP reads the variable only when it
is loaded, so the program's environment and other libraries are not affected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

POLICY = "OMP_WAIT_POLICY"


@contextmanager
def _sleeping_threads() -> Iterator[None]:
    """Set OpenMP's waiting policy within the context, unless the environment has one already."""
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
