"""Addresses of this machine."""

from __future__ import annotations

from ipaddress import ip_address

LOCAL = "localhost"


def is_loopback(host: str) -> bool:
    """True if a service that listens at a host is reachable only from this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == LOCAL
