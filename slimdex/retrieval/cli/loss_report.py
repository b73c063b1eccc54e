"""Text and tables for the report of `info --losses`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slimdex.indexes.search.ablation import CODES, CUT, ENCODER, INDEX, WHITENED

from ..quality.evaluation.ablation import SAID


def loss_heads(report: Mapping[str, Any]) -> list[str]:
    """Heads of the columns of `loss_rows`."""
    return ["search by", report["measure"], *(["with"] if _has_others(report) else []), "change"]


def loss_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Rows for the steps of `losses`: the value, the search it is compared with, and the change."""
    rows = []
    for step in report["steps"]:
        if step["value"] is None:
            low, high = step["least"], step["most"]
            found = f"{low:.4f} to {high:.4f}" if high < 1 else f"at least {low:.4f}"
        else:
            found = f"{step['value']:.4f}"
        change = ""
        if step.get("change") is not None:
            change = f"{step['change']:+.4f}"
            if step["margin"] is not None:
                change += f" ± {step['margin']:.4f}"
        others = [SAID[step["of"]].split(",")[0]] if _has_others(report) else []
        rows.append((SAID[step["step"]], found, *others, change))
    return rows


def _has_others(report: Mapping[str, Any]) -> bool:
    """Return whether steps are compared with another search instead of labels."""
    return any("of" in step for step in report["steps"])


def loss_explanations(report: Mapping[str, Any]) -> list[str]:
    """Explain each step of the report in a line."""
    there = {step["step"] for step in report["steps"]}
    said = {
        ENCODER: "float32, float16: exact search by the encoder's vectors; float32 is not stored, "
        "but rounding changes a score by a known maximum, which bounds the result.",
        WHITENED: f"whitened: exact search over {report['own_metric']}. The index approximates "
        "this order, which differs from the encoder's on purpose.",
        CUT: "cut to k: exact search over the reduced vectors.",
        CODES: "codes, not rescored: the order of the codes alone, which take the place of the "
        "reduced vectors in memory.",
        INDEX: "the index: what a search returns. Codes choose candidates, which are compared "
        "again by their full vectors; this regains most of what the codes lose.",
    }
    change = "change: from the line above, ± half of its 95% interval; below zero is a loss."
    return [*(text for step, text in said.items() if step in there), change]
