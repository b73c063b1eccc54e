"""Worker process that reads files, so that only it may run out of memory or time.

A request is a line of JSON and the bytes of a file; the answer is the length of a JSON text and the
text.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from threading import Timer
from typing import Any

from ...documents import part_from_json
from .limits import MEMORY, SECONDS, UnreadableError, size
from .outline import Extract

PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from {} import main; main(sys.argv[1])"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Worker:
    """Reader of files in another process, restarted if it dies, with bounded memory and time.

    Parameters
    ----------
    seconds : limit of an answer.
    module : has a function `answer(request, data)` that returns JSON; it may raise anything.
    """

    def __init__(
        self, seconds: float = SECONDS, module: str = f"{__package__}.formats.readers"
    ) -> None:
        self._seconds = seconds
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, name: str, kind: str, data: bytes, encoding: str | None = None) -> Extract:
        """Read a file as `readers.read` does; exceeding a limit raises `UnreadableError`."""
        answer = self.ask({"name": name, "kind": kind, "encoding": encoding}, data)
        parts = [*map(part_from_json, answer["parts"])]
        facts = answer["facts"]
        if facts.get("date"):
            facts["date"] = datetime.fromisoformat(facts["date"])
        return Extract(**{**answer, "parts": parts})

    def ask(self, request: dict[str, Any], data: bytes = b"") -> dict[str, Any]:
        """Return the module's answer; raises `UnreadableError` if it fails or exceeds a limit."""
        process = self._start()
        head = json.dumps({**request, "bytes": len(data), "seconds": self._seconds}).encode()
        timer = Timer(self._seconds, process.kill)
        timer.daemon = True
        timer.start()
        try:
            answer = _answer_of(process, head, data)
        except (OSError, ValueError) as error:  # a broken pipe, or an incomplete answer
            was_late = not timer.is_alive()
            self.close()
            if was_late:
                raise UnreadableError(f"takes over {self._seconds:.0f} s") from error
            raise UnreadableError("its reader died; it may need too much memory") from error
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
        if "error" in answer:
            raise UnreadableError(answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        process = self._process
        self._process = None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process, unless it runs already."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM.format(__name__), self._module, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
            )
        return self._process


def _answer_of(process: subprocess.Popen[bytes], head: bytes, data: bytes) -> dict[str, Any]:
    """Send a request in JSON and a file's bytes; return the answer.

    Raises `OSError` or `ValueError` if the process ends before it has answered.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(head + b"\n")
    process.stdin.write(data)
    process.stdin.flush()
    answer = json.loads(process.stdout.read(int(process.stdout.readline())))
    if not isinstance(answer, dict):
        raise ValueError("no answer")
    return answer


def main(module: str) -> None:
    """Answer requests by a module's function until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep libraries' output apart from the answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    _limit_memory()
    while head := sys.stdin.buffer.readline():
        request = json.loads(head)
        data = sys.stdin.buffer.read(request["bytes"])
        if len(data) < request["bytes"]:  # the parent has ended
            return
        _limit_time(request["seconds"] + 1)  # a second later than the parent would end it
        body = json.dumps(_answer(module, request, data), default=datetime.isoformat).encode()
        _limit_time(0)
        del data
        answers.write(b"%d\n" % len(body) + body)
        answers.flush()


def _answer(module: str, request: dict[str, Any], data: bytes) -> dict[str, Any]:
    """Return the module's answer, or the reason for its failure as "error"."""
    try:
        answer: dict[str, Any] = import_module(module).answer(request, data)
    except UnreadableError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"needs over {size(MEMORY)} of memory"}
    except BaseException as error:  # a parser may raise anything; Rust's panics are no Exceptions
        first = next(iter(str(error).splitlines()), "")
        return {"error": f"broken: {type(error).__name__} {first[:100]}".strip()}
    return answer


def _limit_memory() -> None:
    """Limit this process to `MEMORY`, where the system supports it."""
    with suppress(ImportError, ValueError, OSError):
        import resource  # Windows has none

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time(seconds: float) -> None:
    """End this process after a time, even if its parent was killed; not on Windows."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
