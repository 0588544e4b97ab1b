"""Passes one plain request on, and its answer back: both read and written anew, the connection closed after it."""

import socket
from collections.abc import Callable

import h11

from sandbox_worker.sandbox.network.request import MOST_HEAD_BYTES, back, bad, onward
from sandbox_worker.sandbox.network.upstream import unreachable
from sandbox_worker.sandbox.network.visit import Visit, receive, send


class Exchange:
    def __init__(self, visit: Visit, client: socket.socket, parser: h11.Connection, server: socket.socket) -> None:
        """parser has read the request's head."""
        self._visit = visit
        self._client, self._to_client = client, parser
        self._server = server
        self._to_server = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD_BYTES)

    async def carry(self, head: h11.Request) -> None:
        """Raises NoPassageError, OSError."""
        self._visit.let_through()
        await self._visit.relay(self._answer(), self._send(head))
        if self._visit.words and not has_answered(self._to_client):
            raise unreachable(self._visit.asked, self._visit.words)

    async def _send(self, head: h11.Request) -> None:
        await self._up(onward(self._visit.asked, head))
        while isinstance(event := await self._from_client(), h11.Data):
            await self._up(event)
        await self._up(h11.EndOfMessage())

    async def _answer(self) -> None:
        while not isinstance(event := await self._from_server(), h11.EndOfMessage):
            await self._down(back(event) if isinstance(event, h11.Response) else event)
        await self._down(h11.EndOfMessage())

    async def _from_client(self) -> h11.Event:
        try:
            return await next_event(self._to_client, self._client)
        except h11.RemoteProtocolError as error:
            raise bad("the body of the request is malformed") from error

    async def _from_server(self) -> h11.Event:
        try:
            event = await next_event(self._to_server, self._server, self._visit.down)
        except h11.RemoteProtocolError as error:
            raise unreachable(self._visit.asked, "its answer is no HTTP", str(error)) from error
        if isinstance(event, h11.ConnectionClosed):
            raise unreachable(self._visit.asked, "it closed the connection without an answer")
        return event

    async def _up(self, event: h11.Event) -> None:
        try:
            data = self._to_server.send(event) or b""
        except h11.LocalProtocolError as error:
            raise bad("the request cannot be passed on") from error
        self._visit.up(len(data))
        await send(self._server, data)

    async def _down(self, event: h11.Event) -> None:
        try:
            data = self._to_client.send(event) or b""
        except h11.LocalProtocolError as error:
            raise unreachable(self._visit.asked, "its answer cannot be passed back", str(error)) from error
        await send(self._client, data)


def has_answered(parser: h11.Connection) -> bool:
    """Whether its client was sent the head of an answer."""
    return parser.our_state in (h11.SEND_BODY, h11.DONE, h11.MUST_CLOSE)


async def next_event(
    parser: h11.Connection, connection: socket.socket, count: Callable[[int], None] = lambda _: None
) -> h11.Event:
    """Raises h11.RemoteProtocolError, OSError, and what count raises."""
    while True:
        event = parser.next_event()
        if isinstance(event, h11.Event):
            return event
        if event is h11.PAUSED:
            raise h11.RemoteProtocolError("more came than one message")
        data = await receive(connection)
        count(len(data))
        parser.receive_data(data)
