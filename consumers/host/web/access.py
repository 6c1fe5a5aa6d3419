"""Which host names this daemon answers to.

A browser can be made to ask any address for any page by a name that its owner lets resolve to that address (DNS
rebinding), and then hands the answer to the page that asked. So a request must call this daemon by a name of its own.
An IP address is always accepted: nobody needs rebinding to reach an address, and Kubernetes probes by it.
"""

from __future__ import annotations

import ipaddress

from consumers.settings import HttpConfig


class Names:
    """The host names that requests may be for; IP addresses always are."""

    def __init__(self, config: HttpConfig) -> None:
        names = ("localhost", config.host, *config.allowed_hosts)
        self._names = frozenset(name.lower().removesuffix(".") for name in names)
        self._any_name = "*" in config.allowed_hosts

    def answers_to(self, host: str) -> bool:
        """Return whether a `Host` header names this daemon; browsers never send an empty one."""
        if not host or self._any_name:
            return True
        name = _without_port(host).lower().removesuffix(".")
        return name in self._names or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name if not port or port.startswith(":") else host
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
