"""OpenVINO, and what this processor can do."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError

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


@cache
def _core_and_process() -> tuple[Any, int]:
    return openvino_library().Core(), os.getpid()


def openvino_core() -> Any:
    """Return this process's single `openvino.Core`.

    Raises `InputError` in a fork of a process that has one: the fork lacks its threads, and would
    wait forever if one of them held a lock at that moment.
    """
    core, process = _core_and_process()
    if os.getpid() != process:
        raise InputError(
            f"encoder: already used by process {process}, of which this is a fork; expected a "
            'process that is started with "spawn" or "forkserver"'
        )
    return core


@cache
def capabilities() -> tuple[str, ...]:
    """Precisions that the CPU multiplies natively, by OpenVINO's names: FP32, BF16..."""
    return tuple(sorted(openvino_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")))


def fast_precision() -> str:
    """Precision of `auto`: bf16 if the CPU multiplies it natively, else fp32."""
    return "bf16" if "BF16" in capabilities() else "fp32"


_most_cores: int | None = None


def use_cores(count: int) -> None:
    """Limit encoders loaded from now on to this many CPUs."""
    global _most_cores
    _most_cores = count


def core_limit() -> int | None:
    """Return the limit set by `use_cores`, if any."""
    return _most_cores


def cores() -> int:
    """Number of CPUs available to this process."""
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    else:
        found = os.cpu_count() or 1
    return found if _most_cores is None else min(found, _most_cores)


def may_have_gpu() -> bool:
    """Return whether a GPU is possible, without importing torch, which takes a second."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


def has_gpu() -> bool:
    """Return whether torch is installed and can use a GPU."""
    try:
        import torch
    except ModuleNotFoundError:
        return False
    return torch.cuda.is_available()
