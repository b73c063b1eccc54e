"""`slimdex doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes.errors import InputError

from ... import console
from ...options.click_commands import Argument
from ...options.default_index import VARIABLE, default_index, is_index
from ...options.opening import DEFAULT, Json

if TYPE_CHECKING:
    from slimdex.retrieval.operations.finding import Finding

PROBLEMS = 1
"""Exit code if there is something to remedy."""


def doctor(
    index: Annotated[Path | None, Argument("DIR", f"An index's folder; {DEFAULT}")] = None,
    *,
    hub: Annotated[bool, "Also try to reach the model hub."] = False,
    as_json: Json = False,
) -> None:
    """Check the installation, the machine, the cache and an index; exit with code 1 if something
    needs a remedy."""
    from slimdex.retrieval.operations.installation import installation_findings

    if index is not None and not is_index(index):
        raise InputError(f"{index}: no slimdex index there; expected the folder of one")
    found = [*installation_findings(ask_hub=hub), *_of_index(index)]
    remedies = [each for each in found if each.remedy is not None]
    if as_json:
        console.print_json({"well": not remedies, "findings": [asdict(each) for each in found]})
    else:
        console.show_pairs({each.name: each.value for each in found})
        console.line("")
        for each in remedies:
            console.line(f"{each.name}: {each.remedy}", style="bold")
        if not remedies:
            console.line("all well")
    if remedies:
        raise SystemExit(PROBLEMS)


def _of_index(index: Path | None) -> Iterator[Finding]:
    from slimdex.retrieval.operations.finding import Finding

    try:
        path = index or default_index()
        if path is None:
            yield Finding("index", "none here; `slimdex build SOURCE` makes one")
            return
        from slimdex.retrieval.operations.index_state import index_findings

        yield from index_findings(path)
        yield Finding("not checked", f"every byte of its files: `slimdex verify {path}` does")
    except InputError as error:
        yield Finding("index", str(error), f"set {VARIABLE} to an index's folder, or unset it")
    except ModuleNotFoundError as error:  # a finding about libraries has the remedy
        yield Finding("index", f"can't be read: {error}")
