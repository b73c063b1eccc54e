"""Another user: what a file's mode forbids is forbidden to root as well."""

from __future__ import annotations

import os
from collections.abc import Callable

NOBODY = 65534


def as_another_user(call: Callable[[], str]) -> str:
    """The answer of a call in a forked process, which root starts as another user.

    Anybody else stays who they are: of files of their own, the mode for others is not theirs.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - another process
        os.close(reading)
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            answer = call()
        except BaseException as error:
            answer = repr(error)
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer
