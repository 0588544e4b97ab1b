"""The host's end of the socket to a box's supervisor: one request at a time, every wait bounded.

What comes back is checked against what was asked, for the box may be hostile.
"""

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sandbox_worker.sandbox import frames
from sandbox_worker.sandbox.base import SandboxError

_CREDENTIALS = struct.Struct("3i")
_CANCEL_SECONDS = 10.0
"""For a supervisor that is still busy with what it was sent before."""


class ChannelClosedError(SandboxError):
    """The supervisor is gone, or speaks nonsense."""


class ChannelTimeoutError(SandboxError):
    """The supervisor did not answer in time."""


@dataclass(frozen=True)
class Reply:
    fields: list[str]
    data: bytes


class Wire(Protocol):
    """What a channel needs of a socket."""

    def fileno(self) -> int: ...
    def settimeout(self, seconds: float, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


class Channel:
    """Takes over the socket."""

    def __init__(self, ours: Wire) -> None:
        self._socket = ours
        self._sending = threading.Lock()

    def await_ready(self, seconds: float) -> None:
        """Raises ChannelClosedError, ChannelTimeoutError."""
        try:
            reply = self._reply(time.monotonic() + seconds, most=0)
        except TimeoutError as error:
            raise ChannelTimeoutError("The supervisor did not get ready.") from error
        except OSError as error:
            raise ChannelClosedError(f"The supervisor is gone: {os.strerror(error.errno or 0)}.") from error
        if reply.fields != frames.READY:
            raise ChannelClosedError("The supervisor did not get ready.")

    def ask(self, fields: list[str], pieces: Iterable[bytes], *, seconds: float, most: int) -> Reply:
        """Raises ChannelClosedError, ChannelTimeoutError; after either the channel is of no more use."""
        deadline = time.monotonic() + seconds
        try:
            for part in request_frames(fields, pieces):
                with self._sending:
                    self._send(part, deadline)
            return self._reply(deadline, most)
        except TimeoutError as error:
            raise ChannelTimeoutError("The supervisor does not answer.") from error
        except OSError as error:
            raise ChannelClosedError(f"The supervisor is gone: {os.strerror(error.errno or 0)}.") from error

    def renew(self) -> None:
        """The supervisor's lease begins anew. One that takes nothing now is asked again later."""
        if self._sending.acquire(blocking=False):
            try:
                os.write(self._socket.fileno(), frames.frame(frames.RENEW, b""))
            except OSError:
                return  # it is full, or gone: whoever waits for an answer is told
            finally:
                self._sending.release()

    def cancel(self) -> None:
        """What the supervisor does now ends; where it does nothing, nothing happens."""
        with self._sending:
            try:
                self._push(frames.frame(frames.CANCEL, b""), time.monotonic() + _CANCEL_SECONDS)
            except (OSError, ChannelClosedError):
                return  # it is gone, or takes nothing: whoever waits for an answer is told

    def is_hung_up(self) -> bool:
        """While nothing is asked of it, a supervisor that lives says nothing: what is to be read then is its end."""
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN | select.POLLRDHUP)
        return bool(poll.poll(0))

    def hang_up(self) -> None:
        """Wake whoever waits here. The descriptor stays, so that no other thread meets a reused number."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other end was first

    def close(self) -> None:
        self._socket.close()

    def _send(self, part: bytes, deadline: float) -> None:
        """Looks out for the end of the supervisor: an Engine takes on what no container reads any more."""
        self._wait_until(deadline)
        self._push(part, deadline)

    def _push(self, part: bytes, deadline: float) -> None:
        left = memoryview(part)
        while left:
            try:
                left = left[os.write(self._socket.fileno(), left) :]
            except BlockingIOError:
                self._await_room(deadline)

    def _await_room(self, deadline: float) -> None:
        room = select.poll()
        room.register(self._socket, select.POLLOUT | select.POLLRDHUP)
        seen = room.poll(max(deadline - time.monotonic(), 0) * 1000)
        if not seen:
            raise TimeoutError
        if seen[0][1] & select.POLLRDHUP:
            raise ChannelClosedError("The supervisor is gone.")

    def _reply(self, deadline: float, most: int) -> Reply:
        data = bytearray()
        while True:
            kind, size = frames.FRAME.unpack(self._exactly(frames.FRAME.size, deadline))
            if kind == frames.HEADER and size <= frames.MAX_HEADER:
                return Reply(frames.decode(self._exactly(size, deadline)), bytes(data))
            if kind != frames.DATA or len(data) + size > most:
                raise ChannelClosedError("The supervisor sent more than was asked for.")
            data += self._exactly(size, deadline)

    def _exactly(self, size: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._wait_until(deadline)
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ChannelClosedError("The supervisor is gone.")
            parts += part
        return bytes(parts)

    def _wait_until(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


def pair() -> tuple[socket.socket, socket.socket]:
    """Ours and the supervisor's. Ours is told the pid of who writes to it."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def await_writer(ours: socket.socket, seconds: float) -> int:
    """The pid of who wrote the first bytes, as this host sees it; they are still to be read.

    Raises ChannelClosedError, ChannelTimeoutError."""
    ours.settimeout(seconds)
    try:
        said, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size), socket.MSG_PEEK)
    except TimeoutError as error:
        raise ChannelTimeoutError("The supervisor did not get ready.") from error
    except OSError as error:
        raise ChannelClosedError(f"The supervisor is gone: {os.strerror(error.errno or 0)}.") from error
    if not said or not ancillary:
        raise ChannelClosedError("The supervisor did not get ready.")
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    pid, _, _ = _CREDENTIALS.unpack(ancillary[0][2])
    return int(pid)


def request_frames(fields: list[str], pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Frames to send, one after the other."""
    yield frames.frame(frames.HEADER, frames.encode(fields))
    for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(view), frames.CHUNK):
            yield frames.frame(frames.DATA, view[start : start + frames.CHUNK])
    yield frames.frame(frames.FINISH, b"")
