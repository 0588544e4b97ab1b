"""The socket of an attached container: the Docker Engine cuts what comes out into pieces with heads."""

import socket
import struct
from collections.abc import Callable

_HEAD = struct.Struct(">BxxxI")
_STDOUT = 1
_MOST_ERRORS = 4000
_PIECE = 1 << 18


class AttachedSocket:
    """To a channel, the standard input and output of a container's first process. A Wire."""

    def __init__(self, raw: socket.socket, close: Callable[[], None]) -> None:
        """close: gives back the connection that raw belongs to."""
        self.errors = bytearray()
        """Beginning of what the process wrote to its error output."""
        self._raw = raw
        self._close = close
        self._arrived = bytearray()
        self._left = 0
        self._is_output = True

    def fileno(self) -> int:
        return self._raw.fileno()

    def settimeout(self, seconds: float, /) -> None:
        self._raw.settimeout(seconds)

    def shutdown(self, how: int, /) -> None:
        self._raw.shutdown(how)

    def close(self) -> None:
        self._raw.close()
        self._close()

    def recv(self, size: int, /) -> bytes:
        """Of the output, at most size bytes; empty at its end."""
        while True:
            if not self._left and not self._next_head():
                return b""
            if not self._arrived and not self._more():
                return b""
            part = bytes(self._arrived[: min(self._left, size if self._is_output else self._left)])
            del self._arrived[: len(part)]
            self._left -= len(part)
            if part and self._is_output:
                return part
            self.errors += part[: _MOST_ERRORS - len(self.errors)]

    def _next_head(self) -> bool:
        while len(self._arrived) < _HEAD.size:
            if not self._more():
                return False
        kind, self._left = _HEAD.unpack(self._arrived[: _HEAD.size])
        self._is_output = kind == _STDOUT
        del self._arrived[: _HEAD.size]
        return True

    def _more(self) -> bool:
        arrived = self._raw.recv(_PIECE)
        self._arrived += arrived
        return bool(arrived)
