"""Worker process that reads files, so that only it may run out of memory or time.

A request is a line of JSON and the bytes of a file; the answer is the length of a JSON text and the
text. Before it, a line such as ``3/20`` for each step that takes long shows that work goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any, BinaryIO

from slimdex.indexes.execution.progress import listening

from .formats.readers import read
from .limits import MEMORY, UnreadableError, size
from .outline import Extract


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep libraries' output apart from the answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    limit_memory()
    while head := sys.stdin.buffer.readline():
        asked = json.loads(head)
        data = sys.stdin.buffer.read(asked["bytes"])
        if len(data) < asked["bytes"]:
            return
        with listening(lambda _, done, total: _write(answers, b"%d/%d\n" % (done, total))):
            body = json.dumps(_answer(asked, data), default=datetime.isoformat).encode()
        del data
        _write(answers, b"%d\n" % len(body) + body)


def _write(answers: BinaryIO, data: bytes) -> None:
    answers.write(data)
    answers.flush()


def _answer(asked: dict[str, Any], data: bytes) -> dict[str, Any]:
    try:
        kind, extract = read(asked["name"], asked["kind"], data, asked["encoding"])
        return _plain(kind, extract)
    except UnreadableError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"needs over {size(MEMORY)} of memory"}
    except Exception as error:  # a parser may raise anything for a broken file
        first = next(iter(str(error).splitlines()), "")
        return {"error": f"broken: {type(error).__name__} {first[:100]}".strip()}


def _plain(kind: str, extract: Extract) -> dict[str, Any]:
    parts = [[p.start, list(p.headings), p.page, p.anchor] for p in extract.parts]
    facts = dict(extract.facts)
    return {
        "kind": kind,
        "title": extract.title,
        "text": extract.text,
        "parts": parts,
        "facts": facts,
        "unread": extract.unread,
    }


def limit_memory() -> None:
    """Limit this process to `MEMORY`, where the system supports it."""
    with suppress(ImportError, ValueError, OSError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_time(seconds: float) -> None:
    """End this process after a time, even if its parent was killed; not on Windows."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds + 1)
