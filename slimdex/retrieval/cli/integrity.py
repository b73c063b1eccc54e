"""Find damage and repair it: `slimdex verify`, `repair` and `doctor`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from slimdex.errors import InputError
from slimdex.system.index_names import is_index, no_index

from . import console
from .click_commands import Answer, Argument
from .default_index import default_index
from .errors import BAD_INPUT, say
from .options import DEFAULT_INDEX, Dir, WriteOptions

NEEDS_REMEDY = 1
"""Exit code of `doctor` if there is a problem."""


def verify(index: Dir) -> Answer:
    """Check all files of an index and all counts; exit with code 2 if anything is wrong."""
    # Loads numpy, FAISS, and what encodes lost vectors again.
    from ..ingest.repairing import verify as find_faults

    faults = find_faults(index)

    def show() -> None:
        for fault in faults:
            say(fault)

    text = show if faults else f"{index}: all files and numbers are right"
    return Answer({"faults": faults}, text, BAD_INPUT if faults else 0)


def repair(
    index: Dir,
    *,
    untrusted: Annotated[
        bool, "Rebuild all of it without reading it first: for an index that others made."
    ] = False,
    encode: Annotated[bool, "Encode documents again whose vectors are lost or damaged."] = False,
    model: Annotated[
        str | None, "Record a new location of the encoder's model: a folder, a file or a hub id."
    ] = None,
    writing: WriteOptions,
) -> Answer:
    """Rebuild what is derived from documents and vectors, where it is damaged."""
    # As `verify`.
    from ..ingest.repairing import repair as mend

    with console.progress():
        mended = mend(index, untrusted=untrusted, encode=encode, model=model, **vars(writing))

    def show() -> None:
        for fault in mended:
            console.line(f"was: {fault}")
        console.line(f"{index}: " + ("rebuilt" if mended else "nothing to repair"))

    return Answer({"mended": mended}, show)


def doctor(
    index: Annotated[Path | None, Argument("DIR", f"An index's folder; {DEFAULT_INDEX}")] = None,
) -> Answer:
    """Check the installation, the machine, the cache and an index; exit with code 1 if something
    needs a remedy."""
    from .diagnosis import Finding, index_findings, installation_findings  # importlib.metadata

    path = index or default_index()
    if path is not None and not is_index(path):
        raise InputError(no_index(path))
    findings = [*installation_findings()]
    if path is not None:
        try:
            findings += index_findings(path)
        except ModuleNotFoundError as error:  # a finding about libraries has the remedy
            findings.append(Finding("index", f"can't be read: {error}"))
    remedies = [each for each in findings if each.remedy is not None]

    def show() -> None:
        console.show_pairs({each.name: each.value for each in findings})
        console.line("")
        for each in remedies:
            console.line(f"{each.name}: {each.remedy}", style="bold")
        if not remedies:
            console.line("all well")

    facts = {"well": not remedies, "findings": [asdict(each) for each in findings]}
    return Answer(facts, show, NEEDS_REMEDY if remedies else 0)
