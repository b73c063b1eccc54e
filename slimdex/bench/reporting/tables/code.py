"""Table of functions."""

from __future__ import annotations

from .table import SET_AND_MODEL, Column, Declared, by_way, change, of_way

functions = Declared(
    "Functions found by their descriptions",
    (
        *SET_AND_MODEL,
        Column("search", "what"),
        Column("files", "documents", ",d"),
        Column("questions", "queries", ",d"),
        *(
            Column(f"{name}: {head}", of_way(way, f"{name} recall@10"), ".1f")
            for name in ("file", "function")
            for way, head in (
                ("text", "undivided"),
                ("keywords", "keywords"),
                ("grammar", "grammar"),
            )
        ),
        Column("function: grammar - keywords", of_way("grammar", change("function recall@10"))),
        Column("passages: keywords", of_way("keywords", "rows"), ",d"),
        Column("grammar", of_way("grammar", "rows"), ",d"),
    ),
    "recall@10 times 100; differences with 95% intervals",
    lines=by_way("keywords", "what"),
)
