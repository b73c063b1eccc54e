"""Failures: HTTP status and message of an error."""

from __future__ import annotations

import errno
import logging
import os
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from slimdex.errors import (
    CorruptError,
    EncoderError,
    InputError,
    InUseError,
    UnreadableError,
    short_repr,
)

from ..limits import LimitError
from ..service import NO_ENCODER, Service

LOG = logging.getLogger("slimdex.server")
UNKNOWN_ID = "unknown id "
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FULL = [*map(os.strerror, DISK_FULL)]


def status_and_message(error: Exception, service: Service) -> tuple[int, str]:
    """Return the HTTP status, and one line without the server's paths.

    Errors that the caller can't fix are logged, internal errors with their traceback.
    """
    status, line = _status_and_line(error)
    if status >= 500 and not isinstance(error, LimitError):
        is_internal = status == 500 and not isinstance(error, EncoderError)
        LOG.error("%s", error, exc_info=error if is_internal else None)
    return status, service.without_paths(" ".join(line.split()))


def _status_and_line(error: Exception) -> tuple[int, str]:
    """Return the HTTP status and message of an error; the message may have paths of the server."""
    match error:
        case HTTPException():
            return error.status_code, str(error.detail)
        case ClientDisconnect():  # nobody reads the answer
            return 400, "the connection ended before the body did"
        case LimitError():
            return error.status, str(error)
        case UnreadableError():
            return 503, "the index can't be read at the moment; try again later"
        case InUseError():
            return 503, str(error)
        case EncoderError():
            return 500, NO_ENCODER
        case InputError():
            return (404 if str(error).startswith(UNKNOWN_ID) else 400), str(error)
        case CorruptError():
            return 500, "the index is damaged; the server's log says where"
        case OSError() if error.errno in DISK_FULL or any(said in str(error) for said in FULL):
            return 507, "the server's disk is full; nothing of this was kept"
    return 500, "internal error; see the server's log"


def first_line(errors: list[Any]) -> str:
    """Format the first of pydantic's errors about a request as one line.

    >>> first_line([{"loc": ("body", "limit"), "msg": "Input should be an integer", "input": "x",
    ...     "type": "int_type"}])
    "limit='x': Input should be an integer"
    """
    fault = errors[0]
    if fault["type"] == "json_invalid":
        return f"the body: {fault['ctx']['error']}; expected JSON"
    # Other parts name a branch of a union, as in ("hybrid", "constrained-float").
    parts = map(str, fault["loc"][1:])
    place = ".".join(part for part in parts if part.isidentifier() or part.isdigit())
    return f"{place or 'the body'}={short_repr(fault['input'])}: {fault['msg']}"
