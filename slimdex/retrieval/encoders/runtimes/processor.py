"""Capabilities of the processor, and a key for cached measurements."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError

from .openvino_library import openvino_library

OWN_CODE = ("openvino_runtime.py", "streams.py", "precision_choice.py")
"""Files whose changes may affect measurements."""


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


def processor_key() -> str:
    """Key of everything that affects speed: CPU, cores, environment."""
    name = openvino_core().get_property("CPU", "FULL_DEVICE_NAME")
    parts = [name, *capabilities(), f"{cores()} cores"]
    parts += [Path(__file__).with_name(file).read_text() for file in OWN_CODE]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


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
