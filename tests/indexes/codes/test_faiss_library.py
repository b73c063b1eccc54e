"""FAISS's threads sleep while they wait, whatever program loads it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
import slimdex.indexes.codes.faiss_index
print(os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="another OpenMP says nothing")
@pytest.mark.parametrize("own", [None, "ACTIVE"])
def test_threads_sleep_unless_the_program_says_otherwise(own: str | None) -> None:
    variables = {**os.environ, "OMP_DISPLAY_ENV": "VERBOSE"}
    variables.pop("OMP_WAIT_POLICY", None)
    if own is not None:
        variables["OMP_WAIT_POLICY"] = own
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == str(own), done.stderr
    assert ("GOMP_SPINCOUNT = '0'" in done.stderr) == (own is None)
