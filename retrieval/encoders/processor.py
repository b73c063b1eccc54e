"""Processor: what there is here to compute on, and a name for it to remember measurements by."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from .openvino_library import openvino_library

OWN_CODE = ("openvino_runtime.py", "streams.py", "precision_choice.py")
"""What a measurement depends on beside the processor."""

HALVES = {"bf16": "BF16", "fp16": "FP16"}
"""Precisions of 16 bits -> what OpenVINO calls a processor that has them."""


@cache
def openvino_core() -> Any:
    """The one `openvino.Core` of this process."""
    return openvino_library().Core()


@cache
def capabilities() -> tuple[str, ...]:
    """What the CPU multiplies faster than by widening it, in OpenVINO's words: FP32, BF16..."""
    return tuple(sorted(openvino_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")))


def processor_key() -> str:
    """A name for all that decides how fast a model is here: CPU, cores, and how it is run."""
    name = openvino_core().get_property("CPU", "FULL_DEVICE_NAME")
    parts = [name, *capabilities(), f"{cores()} cores"]
    parts += [Path(__file__).with_name(file).read_text() for file in OWN_CODE]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def precision_note(precision: str) -> str | None:
    """A line for who has vectors in 16 bits, on a machine that has no products of such numbers."""
    if precision not in HALVES or may_have_gpu() or HALVES[precision] in capabilities():
        return None
    return f"encoded in {precision}, which this processor has not: queries are encoded in fp32"


_most_cores: int | None = None


def use_cores(count: int) -> None:
    """Let encoders that are loaded from now on use so many CPUs, since others have the rest."""
    global _most_cores
    _most_cores = count


def core_limit() -> int | None:
    """How many CPUs encoders may use, if `use_cores` said so."""
    return _most_cores


def cores() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    else:
        found = os.cpu_count() or 1
    return found if _most_cores is None else min(found, _most_cores)


def may_have_gpu() -> bool:
    """Whether torch is worth asking, which takes a second to import."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


def has_gpu() -> bool:
    """Whether torch can compute on a GPU."""
    import torch

    return torch.cuda.is_available()
