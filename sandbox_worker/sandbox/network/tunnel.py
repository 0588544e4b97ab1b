"""Carries a tunnel once its first message has said, in the clear and in one way, that it goes to the host asked for."""

import asyncio
import socket
from collections.abc import Callable

from sandbox_worker.sandbox.network.client_hello import HelloError, HelloReader, HiddenNameError
from sandbox_worker.sandbox.network.request import Asked
from sandbox_worker.sandbox.network.verdict import NoPassageError, Verdict
from sandbox_worker.sandbox.network.visit import Visit, receive, send

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ACCESS_DENIED = bytes((21, 3, 1, 0, 2, 2, 49))
"""A fatal alert of TLS: all that can be said after ESTABLISHED."""


async def carry(visit: Visit, client: socket.socket, server: socket.socket, early: bytes) -> None:
    """early is what the client sent without waiting for an answer. Raises NoPassageError, OSError."""
    await send(client, ESTABLISHED)
    try:
        hello = await _checked_hello(visit, client, early)
        visit.let_through()
        await visit.relay(_pump(server, client, visit.down), _pump(client, server, visit.up, first=bytes(hello)))
    except NoPassageError:
        if visit.down_bytes == 0:
            await send(client, ACCESS_DENIED)
        raise


async def _checked_hello(visit: Visit, client: socket.socket, early: bytes) -> bytearray:
    reader = HelloReader()
    try:
        async with asyncio.timeout(visit.caps.head_seconds):
            hello = reader.feed(early)
            while hello is None:
                if not (piece := await receive(client)):
                    raise ConnectionAbortedError
                hello = reader.feed(piece)
    except TimeoutError as error:
        words = f"no TLS was begun in {visit.caps.head_seconds:g} s"
        raise NoPassageError(Verdict.TOO_SLOW, words) from error
    except HelloError as error:
        hidden = isinstance(error, HiddenNameError)
        verdict = Verdict.SERVER_NAME_HIDDEN if hidden else Verdict.NOT_TLS
        raise NoPassageError(verdict, f"a tunnel carries TLS with its host's name alone: {error}") from error
    _check_name(visit.asked, hello.server_name)
    return reader.received


def _check_name(asked: Asked, name: str | None) -> None:
    """Clients name no server where they go to an address."""
    if name is None and not asked.is_literal:
        words = f"the TLS of a tunnel to {asked.host} must name it"
        raise NoPassageError(Verdict.NO_SERVER_NAME, words)
    if name is not None and name != asked.host:
        words = f"the TLS of a tunnel to {asked.host} names another host"
        raise NoPassageError(Verdict.SERVER_NAME_DIFFERS, words, name)


async def _pump(source: socket.socket, sink: socket.socket, count: Callable[[int], None], first: bytes = b"") -> None:
    piece = first or await receive(source)
    while piece:
        count(len(piece))
        await send(sink, piece)
        piece = await receive(source)
    sink.shutdown(socket.SHUT_WR)
