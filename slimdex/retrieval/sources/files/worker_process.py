"""Client of the worker process: one file at a time, restarted if it dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from threading import Timer
from typing import Any

from slimdex.indexes.execution.progress import progress

from ...documents import Part
from .limits import MEMORY, PDF_MEMORY, SECONDS, UnreadableError, size
from .outline import Extract

PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from {} import main; main()"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Worker:
    """Reader of files in another process, with limited memory and time for each.

    The time is that of a file, or of each scanned page.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(
        self, name: str, kind: str, data: bytes, encoding: str | None = None
    ) -> tuple[str, Extract]:
        """Read a file as `readers.read` does; exceeding a limit raises `UnreadableError`."""
        process = self._started()
        asked = {"name": name, "kind": kind, "encoding": encoding, "bytes": len(data)}
        late = _Late(process, self._seconds)
        try:
            answer = _asked(process, json.dumps(asked).encode(), data, late)
        except (OSError, ValueError) as error:  # a broken pipe, or an incomplete answer
            was_late = late.is_over
            self.close()
            if was_late:
                raise UnreadableError(f"takes over {self._seconds:.0f} s") from error
            raise UnreadableError(
                f"its reader died; it may need over {size(_memory(name, kind))} of memory"
            ) from error
        except BaseException:
            self.close()
            raise
        finally:
            late.cancel()
        if "error" in answer:
            raise UnreadableError(answer["error"])
        return answer["kind"], _extract(answer)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            program = PROGRAM.format(f"{__package__}.worker")
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
            )
        return self._process


class _Late:
    """Timer that kills a process, unless it is told of progress or cancelled."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process, self._seconds = process, seconds
        self._begin()

    @property
    def is_over(self) -> bool:
        """Return whether the process was killed."""
        return not self._timer.is_alive()

    def cancel(self) -> None:
        """Let the process live."""
        self._timer.cancel()

    def again(self) -> None:
        """Begin the time again."""
        self._timer.cancel()
        self._begin()

    def _begin(self) -> None:
        self._timer = Timer(self._seconds, self._process.kill)
        self._timer.daemon = True
        self._timer.start()


def _memory(name: str, kind: str) -> int:
    """Memory that a file may take; a compressed one has no other sign of its kind than its name."""
    return PDF_MEMORY if "pdf" in (kind, *name.lower().split(".")) else MEMORY


def _asked(
    process: subprocess.Popen[bytes], head: bytes, data: bytes, late: _Late
) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(head + b"\n")
    process.stdin.write(data)
    process.stdin.flush()
    while b"/" in (line := process.stdout.readline()):
        progress("recognising pages", *map(int, line.split(b"/")))
        late.again()
    body = process.stdout.read(int(line))
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise ValueError("no answer")
    return answer


def _extract(answer: dict[str, Any]) -> Extract:
    parts = [
        Part(start, tuple(headings), page, anchor)
        for start, headings, page, anchor in answer["parts"]
    ]
    facts = dict(answer["facts"])
    if facts.get("date"):
        facts["date"] = datetime.fromisoformat(facts["date"])
    return Extract(answer["title"], answer["text"], parts, facts, answer["unread"])
