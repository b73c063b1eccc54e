"""Options of an index in Milvus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class MilvusOptions:
    """Name of an index in Milvus, and access to the server."""

    name: Annotated[
        str | None, "Name of the index in Milvus; default: its folder's, with underscores."
    ] = None
    token: Annotated[
        str,
        {"envvar": "MILVUS_TOKEN"},
        "Credentials for the server: USER:PASSWORD, or an API key.",
    ] = ""
    insecure: Annotated[bool, "Send the token to another machine without TLS."] = False
