"""The box's end of the socket to the worker. When the worker's end closes, the box ends."""

from __future__ import annotations

import os

from sandbox_worker.sandbox.frames import FINISH, FRAME, HEADER, decode, encode, frame


class Channel:
    """Frames on the inherited socket. A request is a header, data, a finish; a reply is data, then a header."""

    def __init__(self, fd: int, child_ended: int) -> None:
        self.fd = fd
        self.child_ended = child_ended
        """Readable when a child may have ended."""
        self.finished = True

    def request(self) -> list[str]:
        _, payload = self._frame()
        self.finished = False
        return decode(payload)

    def data(self) -> bytes:
        """The next piece of the request's data; empty at its end."""
        if self.finished:
            return b""
        kind, payload = self._frame()
        self.finished = kind == FINISH
        return payload

    def drop_data(self) -> None:
        while not self.finished:
            self.data()

    def send(self, kind: bytes, payload: bytes) -> None:
        view = memoryview(frame(kind, payload))
        while view:
            view = view[os.write(self.fd, view) :]

    def reply(self, *fields: str) -> None:
        self.send(HEADER, encode(list(fields)))

    def _frame(self) -> tuple[bytes, bytes]:
        kind, size = FRAME.unpack(self._exactly(FRAME.size))
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = os.read(self.fd, min(size - len(parts), 1 << 20))
            if not part:
                os._exit(0)  # the worker is gone, so the box goes too
            parts += part
        return bytes(parts)
