"""Serves one connection of a box from its request to its end, and writes down what became of it."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator

import h11

from sandbox_worker.sandbox.network import tunnel
from sandbox_worker.sandbox.network.allowlist import Allowlist
from sandbox_worker.sandbox.network.exchange import Exchange, has_answered, next_event
from sandbox_worker.sandbox.network.request import MOST_HEAD_BYTES, Asked, asked_by, bad
from sandbox_worker.sandbox.network.upstream import Upstreams
from sandbox_worker.sandbox.network.verdict import NoPassageError, Verdict
from sandbox_worker.sandbox.network.visit import Visit, receive, send

_FAREWELL_SECONDS = 2.0
_FAREWELL_BYTES = 2**20
_AT_ONCE = struct.pack("ii", 1, 0)


class Conversation:
    """Owns the client's socket."""

    def __init__(
        self,
        client: socket.socket,
        visit: Visit,
        allowlist: Allowlist,
        upstreams: Upstreams,
        lookups: asyncio.Semaphore,
    ) -> None:
        self._client = client
        self._visit = visit
        self._allowlist = allowlist
        self._upstreams = upstreams
        self._lookups = lookups
        self._is_established = False
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)

    async def hold(self) -> None:
        """Raises nothing but CancelledError, on which both sides are cut off at once."""
        visit = self._visit
        visit.ledger.came()
        try:
            with _cut_off_on(asyncio.CancelledError, self._client):
                await self._converse()
        except NoPassageError as error:
            visit.refuse(error)
            await self._part(b"" if self._has_answered() else error.answer)
        except OSError as error:
            visit.words = visit.words or (error.strerror or "")
        except asyncio.CancelledError:
            visit.words = "the box was closed"
            raise
        else:
            await self._part(b"")
        finally:
            self._client.close()
            visit.ledger.ended(visit.decision())

    async def _converse(self) -> None:
        head = await self._head()
        asked = self._visit.asked = asked_by(head)
        check(asked, self._allowlist)
        server = await self._upstreams.connect(asked, self._lookups, seconds=self._visit.caps.reach_seconds)
        with server, _cut_off_on(BaseException, server):
            if asked.is_tunnel:
                self._is_established = True
                await tunnel.carry(self._visit, self._client, server, self._parser.trailing_data[0])
            else:
                await Exchange(self._visit, self._client, self._parser, server).carry(head)

    async def _head(self) -> h11.Request:
        try:
            async with asyncio.timeout(self._visit.caps.head_seconds):
                event = await next_event(self._parser, self._client)
        except TimeoutError as error:
            words = f"no whole request came in {self._visit.caps.head_seconds:g} s"
            raise NoPassageError(Verdict.TOO_SLOW, words) from error
        except h11.RemoteProtocolError as error:
            raise bad("the head of the request is malformed or too long") from error
        if not isinstance(event, h11.Request):
            raise ConnectionAbortedError
        return event

    def _has_answered(self) -> bool:
        return self._is_established or has_answered(self._parser)

    async def _part(self, last: bytes) -> None:
        """Closing while the client still sends would take from it what it was told last."""
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await send(self._client, last)
                self._client.shutdown(socket.SHUT_WR)
                left = _FAREWELL_BYTES
                while left > 0 and (piece := await receive(self._client)):
                    left -= len(piece)


def check(asked: Asked, allowlist: Allowlist) -> None:
    """Raises NoPassageError."""
    ports = allowlist.ports(asked.host)
    if not ports and asked.is_literal:
        words = f"{asked.host} is an address, and no such address is on this task's list of hosts: ask by name"
        raise NoPassageError(Verdict.IP_LITERAL, words)
    if not ports:
        raise NoPassageError(Verdict.HOST_NOT_ALLOWED, f"{asked.host} is not on this task's list of hosts")
    if asked.port not in ports:
        listed = ", ".join(str(port) for port in sorted(ports))
        words = f"{asked.host} is on this task's list of hosts, but not port {asked.port} of it, only {listed}"
        raise NoPassageError(Verdict.PORT_NOT_ALLOWED, words)


@contextlib.contextmanager
def _cut_off_on(error: type[BaseException], connection: socket.socket) -> Iterator[None]:
    """At once, and so that the other side cannot take what it got for the whole."""
    try:
        yield
    except error:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        raise
