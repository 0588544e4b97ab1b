"""A browser's end of a socket, against the ASGI application itself."""

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator

WAIT = 10


class Socket:
    """One WebSocket, from the handshake to the close."""

    def __init__(self, application: Any, path: str, query: str, headers: list[tuple[bytes, bytes]]) -> None:
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
        }
        communicator: Any = ApplicationCommunicator  # asgiref ships no types for it
        self._application = communicator(application, scope)

    async def open(self) -> bool:
        """Whether the server accepted."""
        await self._application.send_input({"type": "websocket.connect"})
        answer = await self._application.receive_output(WAIT)
        return bool(answer["type"] == "websocket.accept")

    async def send(self, text: str) -> None:
        await self._application.send_input({"type": "websocket.receive", "text": text})

    async def receive(self) -> dict[str, Any]:
        """The next message, or the close as it is."""
        answer = await self._application.receive_output(WAIT)
        return dict(json.loads(answer["text"])) if answer["type"] == "websocket.send" else dict(answer)

    async def close(self) -> None:
        await self._application.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._application.wait(WAIT)
