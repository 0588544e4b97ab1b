"""Reads the server's name out of a TLS ClientHello: strictly, from pieces of any size, before anything is let through.

What comes may be hostile. A hello that could mean two things, or hides its name, is refused.
"""

from dataclasses import dataclass, field

from sandbox_worker.sandbox.base import SandboxError
from sandbox_worker.sandbox.network.hostname import HostnameError, normal_name

MOST_BYTES = 64 * 2**10
"""Of a hello with the heads of its records; those of browsers have two."""
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_RECORD_HEAD, _LARGEST_RECORD = 5, 2**14
_MESSAGE_HEAD = 4
_SERVER_NAME, _HOST_NAME = 0, 0
_ENCRYPTED_HELLO = frozenset({0xFE0D, 0xFFCE})
"""Also where it is only for show, as browsers send it: nobody but the server can tell."""


class HelloError(SandboxError):
    """Not a ClientHello that may pass."""


class NotTlsError(HelloError):
    """No TLS at all, or broken."""


class HiddenNameError(HelloError):
    """The name that counts is encrypted."""


@dataclass(frozen=True)
class ClientHello:
    server_name: str | None
    """In its normal form; None where it names no server."""


@dataclass
class HelloReader:
    """Takes what the client sends until the hello is whole; received is then all of it, to be passed on."""

    received: bytearray = field(default_factory=bytearray)
    _read: int = 0
    """Bytes of received that are in message already."""
    _message: bytearray = field(default_factory=bytearray)

    def feed(self, piece: bytes) -> ClientHello | None:
        """None while more is to come. Raises HelloError."""
        self.received += piece
        while (hello := self._hello()) is None and self._take_record():
            pass
        return hello

    def _take_record(self) -> bool:
        head = self.received[self._read : self._read + _RECORD_HEAD]
        if head and head[0] != _HANDSHAKE:
            raise NotTlsError("it does not begin with a TLS handshake")
        if len(head) > 1 and head[1] != 3:
            raise NotTlsError("its version of TLS is unknown")
        if len(head) < _RECORD_HEAD:
            return False
        size = int.from_bytes(head[3:])
        if not 0 < size <= _LARGEST_RECORD:
            raise NotTlsError("a record of its hello is empty or too long")
        start = self._read + _RECORD_HEAD
        if start + size > MOST_BYTES:
            raise NotTlsError("its hello is too long")
        if len(self.received) < start + size:
            return False
        self._message += self.received[start : start + size]
        self._read = start + size
        return True

    def _hello(self) -> ClientHello | None:
        if self._message and self._message[0] != _CLIENT_HELLO:
            raise NotTlsError("it does not begin with a ClientHello")
        if len(self._message) < _MESSAGE_HEAD:
            return None
        size = int.from_bytes(self._message[1:_MESSAGE_HEAD])
        if size > MOST_BYTES:
            raise NotTlsError("its hello is too long")
        if len(self._message) < _MESSAGE_HEAD + size:
            return None
        if len(self._message) > _MESSAGE_HEAD + size:
            raise NotTlsError("more follows its hello in the same record")
        return parse_hello(bytes(self._message[_MESSAGE_HEAD:]))


class _Bytes:
    """Takes counted parts off the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __bool__(self) -> bool:
        return bool(self._data)

    def take(self, size: int) -> bytes:
        if len(self._data) < size:
            raise NotTlsError("its hello is cut short")
        part, self._data = self._data[:size], self._data[size:]
        return part

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width))

    def vector(self, width: int) -> bytes:
        return self.take(self.number(width))

    def end(self) -> None:
        if self._data:
            raise NotTlsError("its hello has bytes that belong to nothing")


def parse_hello(body: bytes) -> ClientHello:
    """Raises HelloError."""
    rest = _Bytes(body)
    rest.take(2 + 32)  # version, random
    session, ciphers, compressions = rest.vector(1), rest.vector(2), rest.vector(1)
    if len(session) > 32 or not ciphers or len(ciphers) % 2 or not compressions:
        raise NotTlsError("its hello is malformed")
    if not rest:
        return ClientHello(None)
    extensions = _Bytes(rest.vector(2))
    rest.end()
    return ClientHello(_server_name(_extensions(extensions)))


def _extensions(rest: _Bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while rest:
        kind, content = rest.number(2), rest.vector(2)
        if kind in found:
            raise NotTlsError("its hello has an extension twice")
        found[kind] = content
    return found


def _server_name(extensions: dict[int, bytes]) -> str | None:
    if _ENCRYPTED_HELLO & extensions.keys():
        raise HiddenNameError("its hello hides a name (encrypted ClientHello)")
    if _SERVER_NAME not in extensions:
        return None
    outer = _Bytes(extensions[_SERVER_NAME])
    names = _Bytes(outer.vector(2))
    outer.end()
    kind, name = names.number(1), names.vector(2)
    names.end()
    if kind != _HOST_NAME or name.endswith(b"."):
        raise NotTlsError("its hello names the server in an unknown way")
    try:
        return normal_name(name.decode("ascii"))
    except (UnicodeDecodeError, HostnameError) as error:
        raise NotTlsError("its hello names no host") from error
