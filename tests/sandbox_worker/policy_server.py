"""A stand-in for the policy server, over real HTTP: answers from a script, in the subset of the API that is used."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.sandbox_worker.factories import chat_tokenizer

Answer = dict[str, Any] | tuple[int, dict[str, Any]]


class PolicyServer(ThreadingHTTPServer):
    """answer gets the request's body and the number of earlier calls."""

    daemon_threads = True

    def __init__(self, answer: Callable[[dict[str, Any], int], Answer], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = answer
        self.calls: list[dict[str, Any]] = []
        self._connections: list[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.append(request)
        super().process_request(request, client_address)

    def hang_up(self) -> None:
        """As a process that ends: kept-alive connections go with it."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what some tests are about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: PolicyServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = len(self.server.calls)
        self.server.calls.append(body | {"path": self.path})
        found = self.server.answer(body, number)
        status, answer = found if isinstance(found, tuple) else (200, found)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Silent."""


def completion(text: str, *, body: dict[str, Any], end: bool = True, **changes: Any) -> dict[str, Any]:
    """What the server would say if the policy sampled this text and its end."""
    tokenizer = chat_tokenizer()
    ids = [*tokenizer.encode(text), *(tokenizer.eos_ids if end else ())][: body["max_tokens"]]
    finish = "stop" if ids and ids[-1] in tokenizer.eos_ids else "length"
    choice = {
        "index": 0,
        "text": text,
        "finish_reason": finish,
        "token_ids": ids,
        "prompt_token_ids": body["prompt"],
        "logprobs": {"token_logprobs": [-0.5] * len(ids), "tokens": [""] * len(ids)},
    }
    return {"id": "x", "object": "text_completion", "model": body["model"], "choices": [choice | changes]}


@contextmanager
def serving(answer: Callable[[dict[str, Any], int], Answer], port: int = 0) -> Iterator[PolicyServer]:
    server = PolicyServer(answer, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.hang_up()
        server.server_close()


@contextmanager
def saying(*messages: str) -> Iterator[PolicyServer]:
    """A policy that says these messages one call after the other, then that it is done."""

    def answer(body: dict[str, Any], number: int) -> Answer:
        return completion(messages[number] if number < len(messages) else "Done.", body=body)

    with serving(answer) as server:
        yield server
