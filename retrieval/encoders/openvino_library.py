"""OpenVINO, imported so that it sends no telemetry."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

TELEMETRY = "openvino_telemetry"


@cache
def openvino_library() -> Any:
    """The module `openvino`; importing it takes a tenth of a second.

    It would report each conversion to its makers over the network, from processes that several
    threads fork at once. OpenBLAS loses its own threads by that and waits for them for ever, as
    `numpy.linalg.eigh` after a conversion; and what users convert is no one else's business.
    OpenVINO does without the package that reports where it is not installed, so it is hidden while
    OpenVINO is imported, and only then: the rest of the program can import it. A program that has
    imported OpenVINO itself before has chosen otherwise.
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
