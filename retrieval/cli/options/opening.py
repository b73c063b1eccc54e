"""Options of most commands: which index, how it is opened, and the form of the answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import Context, Parameter

from .click_commands import Argument

Dir = Annotated[Path, Argument("DIR", "The index's folder.")]
Dirs = Annotated[
    list[str],
    Argument("DIR", "Folders of indexes; NAME=DIR serves one under another name."),
]
Json = Annotated[bool, "--json", "Print one JSON object and nothing else."]
Wait = Annotated[float, "SECONDS", "How long to wait for other processes that are using the index."]
Where = Annotated[str | None, "A DuckDB condition on the documents' columns: year > 2000."]
Model = Annotated[
    str | None,
    "New location of the encoder's model, if it has moved: a folder, a file or a hub id.",
]


def _warned(ctx: Context, param: Parameter, trusted: bool) -> bool:
    if trusted:
        from .. import console

        console.note("code that comes with the model is run with your permissions")
    return trusted


Trust = Annotated[
    bool,
    {"callback": _warned},
    "Run Python code that comes with the model; only for authors you trust.",
]


@dataclass(frozen=True)
class OpenOptions:
    """Options to open an existing index."""

    model: Model = None
    trust_remote_code: Trust = False
    wait: Wait = 0
