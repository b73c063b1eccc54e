"""Encoders: how many operations a model takes for a token."""

from __future__ import annotations

from pathlib import Path

from slimdex.indexes.errors import InputError, shortened
from slimdex.indexes.json_text import parsed

from ..rows import read_rows

CONFIG = "config.json"
NEEDED = ("hidden_size", "num_hidden_layers", "intermediate_size")


def operations_of(model: str, results: Path) -> float:
    """Of a model for a token: as `slimdex bench encode` told it, or from its folder.

    Raises
    ------
    InputError
        If it was not measured and is no folder of a transformer.
    """
    told = {row["model"]: row["flops_per_token"] for row in read_rows(results, "encode")}
    if model in told:
        return float(told[model])
    config = Path(model) / CONFIG
    if not config.is_file():
        raise InputError(
            f"--model {shortened(model)}; expected {', '.join(told)}, a folder with {CONFIG}, "
            "or --tokens-per-s"
        )
    return operations_by(config)


def operations_by(config: Path) -> float:
    """By a transformer's config.json: two for each weight of attention and feed-forward layers.

    Raises
    ------
    InputError
        If it is no JSON object, or does not say what the layers are.
    """
    try:
        facts = parsed(config.read_text(encoding="utf-8"))
        width, layers, inner = (int(facts[name]) for name in NEEDED)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{config}: {error!r}; expected {', '.join(NEEDED)}") from error
    return 2.0 * layers * (4 * width**2 + 2 * width * inner)
