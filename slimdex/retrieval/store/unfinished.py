"""Progress of an unfinished addition, as reported to users."""

from __future__ import annotations

from pathlib import Path

from .state import State
from .work_folder import is_held, work_folders


def progress_of(path: Path, state: State) -> str:
    """Describe the progress of an unfinished addition in a sentence; empty if there is none."""
    # A build that has committed nothing yet is known only by its work folder.
    mark = state.unfinished
    if mark is None:
        if state.settings is not None:
            return ""
        folders = work_folders(path)
        if any(map(is_held, folders)):
            return "no documents are in yet; the build goes on"
        return "its build is unfinished: run it again" if folders else ""

    # An addition of several batches, some of them committed.
    what = "build" if mark.builds else "last addition"
    how = "goes on" if is_held(path / mark.work) else "was stopped: run it again"
    return f"{mark.said}; the {what} {how}"


def was_stopped(path: Path, state: State) -> bool:
    """Return whether a build was stopped before its first commit."""
    folders = work_folders(path) if state.settings is None else []
    return bool(folders) and not any(map(is_held, folders))
