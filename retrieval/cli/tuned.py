"""Tuned: what a tuning tried and chose, as a person reads it."""

from __future__ import annotations

from rich.table import Table

from ..collection.targets import Tuning
from .console import line, out


def show_tuning(tuning: Tuning) -> None:
    """A row for each setting that was measured, then the choice and why."""
    if tuning.tried:
        table = Table(box=None)
        for name in (
            "kind",
            "k",
            "candidates",
            "bytes",
            "agreement",
            "at least",
            "p50 ms",
            "p99 ms",
        ):
            table.add_column(name, justify="left" if name == "kind" else "right")
        table.add_column("")
        for tried in tuning.tried:
            settings = tried.settings
            table.add_row(
                settings.kind,
                str(settings.k),
                "auto" if settings.candidates is None else f"{settings.candidates:,}",
                f"{tried.ram:,}",
                f"{tried.estimate:.4f}",
                f"{tried.bound:.4f}",
                f"{tried.p50_ms:.2f}",
                f"{tried.p99_ms:.2f}",
                tried.verdict,
            )
        out.print(table)
        out.print()
    for text in tuning.said:
        line(text)
