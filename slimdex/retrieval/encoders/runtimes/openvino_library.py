"""Import of OpenVINO without telemetry."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

TELEMETRY = "openvino_telemetry"


@cache
def openvino_library() -> Any:
    """Import the module `openvino`, which takes a tenth of a second.

    OpenVINO would report each conversion to its makers, from processes forked by several threads at
    once. That violates users' privacy, and OpenBLAS loses its threads in such forks and then waits
    forever, for example in `numpy.linalg.eigh`. OpenVINO works without the telemetry package, which
    is therefore hidden during the import only. A program that imported OpenVINO before keeps its
    own choice.
    """
    hidden = sys.modules.pop(TELEMETRY, None)
    sys.modules[TELEMETRY] = None  # type: ignore[assignment]
    try:
        import openvino
    finally:
        sys.modules.pop(TELEMETRY, None)
        if hidden is not None:
            sys.modules[TELEMETRY] = hidden
    return openvino
