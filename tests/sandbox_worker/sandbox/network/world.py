"""A small internet on this host's loopback: real servers with real TLS, names, and clients in a box's place."""

import contextlib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from sandbox_worker.sandbox.network.addresses import why_not_usable
from sandbox_worker.sandbox.network.allowlist import Allowlist
from sandbox_worker.sandbox.network.caps import Caps
from sandbox_worker.sandbox.network.hostname import Address
from sandbox_worker.sandbox.network.ledger import Decision
from sandbox_worker.sandbox.network.proxy import BoxNetwork, Proxy

SECONDS = 20.0
"""Longest wait for what has to happen."""
SERVERS = ip_address("127.0.0.1")
CHUNKS = 64


def only_the_servers(address: Address) -> str:
    """The permission of the tests: the product's, and the one address at which their servers are."""
    return "" if address == SERVERS else why_not_usable(address)


@dataclass
class Names:
    """A resolver: .example is the servers', the rest is as it was set. Remembers what it was asked."""

    known: dict[str, list[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> list[Address]:
        self.asked.append(name)
        if name not in self.known and not name.endswith(".example"):
            raise OSError(f"no such name: {name}")
        return [ip_address(text) for text in self.known.get(name, [str(SERVERS)])]


class _Handler(BaseHTTPRequestHandler):
    server: "WebServer"
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.items()))
        if self.path.startswith("/to/"):
            return self._answer(302, b"", ("Location", f"http://{self.path[4:]}/"))
        if self.path.startswith("/chunks"):
            return self._chunks()
        size = int(self.path[len("/bytes/") :]) if self.path.startswith("/bytes/") else None
        return self._answer(200, b"hello" if size is None else bytes(size))

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "12345")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.server.seen.append((self.path, self.headers.items()))
        self._answer(200, body)

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nhello\r\n" * CHUNKS + b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Silent."""


class WebServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__((str(SERVERS), 0), _Handler)
        self.context = context
        self.seen: list[tuple[str, list[tuple[str, str]]]] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.context is None:
            return super().finish_request(request, client_address)
        with self.context.wrap_socket(request, server_side=True) as wrapped:
            return super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what some tests are about."""


@contextlib.contextmanager
def serving(server: WebServer) -> Iterator[WebServer]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that does with each connection what answer does, then closes it."""
    with socket.create_server((str(SERVERS), 0)) as listener:
        serving = [listener]

        def work() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                serving.append(connection)
                with connection, contextlib.suppress(OSError):
                    answer(connection)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            for one in serving:
                with contextlib.suppress(OSError):  # closed already
                    one.shutdown(socket.SHUT_RDWR)
            thread.join()


def make_certificate(folder: Path) -> ssl.SSLContext:
    """Of a server for every name below example."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=example"
    names = "subjectAltName=DNS:pkg.example,DNS:other.example"
    command = ["openssl", *words.split(), "-addext", names, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@dataclass(frozen=True)
class Place:
    """A box's part of the proxy, and where its clients find it."""

    network: BoxNetwork
    port: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

    def say(self, *pieces: bytes, pause: float = 0.0) -> bytes:
        """Everything that comes back for these bytes, until the proxy closes."""
        with self.connect() as client:
            for piece in pieces:
                client.sendall(piece)
                time.sleep(pause)
            return drain(client)

    def get(self, url: str, *headers: str) -> bytes:
        host = url.removeprefix("http://").partition("/")[0]
        return self.say("\r\n".join((f"GET {url} HTTP/1.1", f"Host: {host}", *headers, "", "")).encode())

    def tunnel(self, target: str) -> tuple[socket.socket, bytes]:
        """A connection on which a tunnel was asked for, and the head of the answer."""
        client = self.connect()
        client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head and (piece := client.recv(1)):
            head += piece
        return client, head

    def refusal(self, target: str) -> bytes:
        """The answer to a tunnel that is not to be."""
        return self.say(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())

    def through_tunnel(self, target: str, *pieces: bytes) -> bytes:
        """What comes back for these bytes."""
        client, head = self.tunnel(target)
        with client:
            assert head.startswith(b"HTTP/1.1 200 ")
            for piece in pieces:
                client.sendall(piece)
            return drain(client)

    def last(self) -> Decision:
        """The latest decision, once nothing is open any more."""
        until(lambda: self.network.counters().open == 0 and bool(self.network.log()))
        return self.network.log()[-1]


def drain(client: socket.socket) -> bytes:
    data = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(2**16):
            data += piece
    return bytes(data)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.005)


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=512)


def open_place(proxy: Proxy, hosts: Sequence[str], *, label: str = "1.2.1", caps: Caps | None = None) -> Place:
    listener = listening()
    port = int(listener.getsockname()[1])
    return Place(proxy.serve(listener, Allowlist.parse(hosts), label, caps or Caps()), port)
