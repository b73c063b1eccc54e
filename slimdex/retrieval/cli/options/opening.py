"""Options of most commands: which index, how it is opened, and the form of the answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import Context, Parameter

from .click_commands import Argument
from .default_index import FOLDER, VARIABLE

DEFAULT = f"default: {VARIABLE}, or the nearest {FOLDER} here or above."
Dir = Annotated[Path, Argument("DIR", f"The index's folder; {DEFAULT}", is_index=True)]
Dirs = Annotated[
    list[str],
    Argument(
        "DIR",
        f"Folders of indexes; NAME=DIR serves one under another name; {DEFAULT}",
        is_index=True,
    ),
]
SomeDirs = Annotated[
    list[str] | None,
    Argument("DIR", f"Folders of indexes; NAME=DIR serves one under another name; {DEFAULT}"),
]
Json = Annotated[bool, "--json", "Print one JSON object and nothing else."]
Where = Annotated[str | None, "A DuckDB condition on the documents' columns: year > 2000."]
Model = Annotated[
    str | None,
    "New location of the encoder's model, if it has moved: a folder, a file, a hub id or a URL.",
]
ApiKeyFile = Annotated[
    Path | None,
    "A file with the key of the encoder's server; default: OPENAI_API_KEY, for the host of "
    "OPENAI_BASE_URL.",
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
    api_key_file: ApiKeyFile = None


@dataclass(frozen=True)
class WriteOptions:
    """Options of commands that change an index."""

    wait: Annotated[
        float, "SECONDS", "How long a change waits for its turn while other processes write."
    ] = 30
    shared_filesystem: Annotated[
        bool, "Change it on a network file system; locks must work between all its machines."
    ] = False
