"""The way out of all boxes of a back end: each to the hosts on its own list."""

import socket
from collections.abc import Callable

from sandbox_worker.sandbox.network.allowlist import Allowlist
from sandbox_worker.sandbox.network.proxy import Proxy


class WayOut:
    def __init__(self) -> None:
        self._proxy = Proxy()

    def open(self, hosts: tuple[str, ...], label: str, listen: Callable[[], socket.socket]) -> Callable[[], None]:
        """listen makes the box's listener, once the list is seen to be one. What is returned closes this box's part.

        Raises AllowlistError, PatternError, ProxyError, and what listen raises."""
        allowlist = Allowlist.parse(hosts)
        return self._proxy.serve(listen(), allowlist, label).close

    def close(self) -> None:
        self._proxy.close()
