"""One connection from a box, as it goes: what is asked, what is said of it, and its bytes."""

import asyncio
import socket
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sandbox_worker.sandbox.network.caps import Caps
from sandbox_worker.sandbox.network.ledger import Decision, Ledger
from sandbox_worker.sandbox.network.request import Asked
from sandbox_worker.sandbox.network.verdict import NoPassageError, Verdict

PIECE = 64 * 2**10
_LONGEST_WORDS = 500
NOTHING_YET = Asked("", "", 0, b"")


@dataclass
class Visit:
    ledger: Ledger
    caps: Caps
    asked: Asked = NOTHING_YET
    verdict: Verdict = Verdict.HUNG_UP
    words: str = ""
    up_bytes: int = 0
    down_bytes: int = 0
    _at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _began: float = field(default_factory=time.monotonic)
    _idle: asyncio.Timeout = field(default_factory=lambda: asyncio.Timeout(None))

    def up(self, size: int) -> None:
        """Before it is passed on. Raises NoPassageError."""
        self.ledger.add(up=size)
        self.up_bytes += size
        self._beat()

    def down(self, size: int) -> None:
        """Before it is passed on. Raises NoPassageError."""
        self.ledger.add(down=size)
        self.down_bytes += size
        self._beat()

    def let_through(self) -> None:
        self.verdict = Verdict.ALLOWED

    def refuse(self, error: NoPassageError) -> None:
        self.verdict = error.verdict
        self.words = (f"{error.words} ({error.detail})" if error.detail else error.words)[:_LONGEST_WORDS]

    async def relay(self, answering: Coroutine[None, None, None], sending: Coroutine[None, None, None]) -> None:
        """Until the answer has ended, an error comes of either, or nothing has moved for too long."""
        try:
            async with self._idle:
                self._beat()
                await _until_first(asyncio.create_task(answering), asyncio.create_task(sending))
        except TimeoutError:
            if not self._idle.expired():  # a socket's own
                raise
            self.words = f"nothing was sent for {self.caps.idle_seconds:g} s"

    def decision(self) -> Decision:
        asked = self.asked
        seconds = time.monotonic() - self._began
        numbers = (self.up_bytes, self.down_bytes, seconds)
        return Decision(self._at, asked.method[:20], asked.host, asked.port, self.verdict, self.words, *numbers)

    def _beat(self) -> None:
        self._idle.reschedule(asyncio.get_running_loop().time() + self.caps.idle_seconds)


async def _until_first(main: "asyncio.Task[None]", side: "asyncio.Task[None]") -> None:
    """Until main has ended; the error of either is raised, and neither is left."""
    try:
        await asyncio.wait((main, side), return_when=asyncio.FIRST_COMPLETED)
        if side.done():
            side.result()
        await main
    finally:
        main.cancel()
        side.cancel()
        await asyncio.gather(main, side, return_exceptions=True)


async def receive(connection: socket.socket) -> bytes:
    """What came, empty at its end. Lets the other connections have their turn, also where there is always more."""
    await asyncio.sleep(0)
    return await asyncio.get_running_loop().sock_recv(connection, PIECE)


async def send(connection: socket.socket, data: bytes | bytearray) -> None:
    await asyncio.get_running_loop().sock_sendall(connection, data)
