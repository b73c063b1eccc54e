"""Hosts: names by which the service may be called, and pages that may call it.

A page of another site can make its own name resolve to this machine (DNS rebinding). Its browser
then treats this service as part of that site, but states that name in the Host header: only
requests to an address or to one of the service's names are legitimate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from slimdex.indexes.errors import InputError

from ...encoders.over_http.connection import LOCAL

_NAME = re.compile(r"[^:\[\]\s/@]+")
_ORIGIN = re.compile(r"[^:/\s]+://[^/\s]+")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s/@]+)(?::(\d{1,5}))?")


@dataclass(frozen=True)
class Hosts:
    """Known names and pages.

    Attributes
    ----------
    names : names of the service, besides addresses and localhost.
    pages : origins of other sites' pages that may call it, as "https://example.org"; "*" for any.
    """

    names: Sequence[str] = ()
    pages: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in self.names:
            if not _NAME.fullmatch(name) and not _is_address(name):
                raise InputError(
                    f"host {name!r}; expected a name such as search.example.org, without a port"
                )
        for page in self.pages:
            if page != "*" and not _ORIGIN.fullmatch(page):
                raise InputError(
                    f"page {page!r}; expected an origin such as https://example.org, or *"
                )

    def knows(self, host: str) -> bool:
        """True if a Host header refers to this service.

        >>> hosts = Hosts(["search.example.org"])
        >>> names = ("127.0.0.1:8000", "[::1]:8000", "LOCALHOST", "search.example.org", "evil.org")
        >>> [hosts.knows(host) for host in names]
        [True, True, True, True, False]
        """
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].strip("[]").lower()
        return _is_address(name) or name in [LOCAL, *(known.lower() for known in self.names)]

    def allows(self, origin: str, host: str) -> bool:
        """True if pages of an origin may call: the service's own pages, or configured ones.

        >>> hosts = Hosts(pages=["https://example.org"])
        >>> origins = ("http://localhost:8000", "https://example.org", "http://evil.org", "null")
        >>> [hosts.allows(origin, "localhost:8000") for origin in origins]
        [True, True, False, False]
        """
        try:
            parts = urlsplit(origin)
        except ValueError:  # e.g. "http://["
            return False
        own = parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
        return own or "*" in self.pages or origin in self.pages


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
