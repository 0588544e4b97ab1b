"""A box takes no more of the proxy than its own part, and its part ends with it at once."""

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from sandbox_worker.sandbox.network.allowlist import Allowlist
from sandbox_worker.sandbox.network.caps import Caps
from sandbox_worker.sandbox.network.hostname import Address
from sandbox_worker.sandbox.network.proxy import Proxy
from sandbox_worker.sandbox.network.verdict import Verdict
from tests.sandbox_worker.sandbox.network.hellos import real_hello
from tests.sandbox_worker.sandbox.network.world import (
    SECONDS,
    SERVERS,
    WebServer,
    answering,
    drain,
    listening,
    only_the_servers,
    open_place,
    until,
)

SHORT_HEAD = Caps(head_seconds=0.2)
SHORT_REACH = Caps(reach_seconds=0.5)
SHORT_IDLE = Caps(idle_seconds=0.3)


def hold(connection: socket.socket) -> None:
    """A server that reads all and says nothing."""
    drain(connection)


@pytest.fixture
def silent() -> Iterator[int]:
    with ExitStack() as servers:
        yield servers.enter_context(answering(hold))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_500_connections_at_once_wait_their_turn_and_starve_nobody(proxy: Proxy, web: WebServer) -> None:
    caps = Caps(connections=16, connections_a_second=1000)
    greedy = open_place(proxy, [f"pkg.example:{web.port}"], caps=caps)
    other = open_place(proxy, [f"pkg.example:{web.port}"])
    url = f"http://pkg.example:{web.port}/"
    with ExitStack() as stack:
        idle = [stack.enter_context(greedy.connect()) for _ in range(500)]
        until(lambda: greedy.network.counters().open == 16)
        assert b"hello" in other.get(url)
        assert greedy.network.counters().open == 16
        request = f"GET {url} HTTP/1.1\r\nHost: pkg.example:{web.port}\r\n\r\n".encode()

        def ask(client: socket.socket) -> bytes:
            with client:
                client.sendall(request)
                return drain(client)

        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(ask, idle))
    assert all(answer.endswith(b"hello") for answer in answers)
    until(lambda: greedy.network.counters().of(Verdict.ALLOWED) == 500)


def test_connections_come_no_faster_than_they_may(proxy: Proxy) -> None:
    place = open_place(proxy, ["pkg.example"], caps=Caps(connections=64, connections_a_second=5))
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(place.connect())
        until(lambda: place.network.counters().open >= 5)
        assert place.network.counters().open < 40
        until(lambda: place.network.counters().open >= 8)


def test_a_box_that_always_sends_leaves_the_others_their_turn(proxy: Proxy, web: WebServer) -> None:
    """Both ends of it are always ready: nothing but the proxy's own fairness stops it."""
    stop = threading.Event()

    def pour(connection: socket.socket) -> None:
        connection.recv(2**16)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not stop.is_set():
            connection.sendall(bytes(2**18))

    with answering(pour) as port:
        greedy = open_place(proxy, [f"pkg.example:{port}"], caps=Caps(down_bytes=2**50))
        other = open_place(proxy, [f"pkg.example:{web.port}"])
        with ThreadPoolExecutor(1) as threads:
            poured = threads.submit(lambda: len(greedy.get(f"http://pkg.example:{port}/")))
            until(lambda: greedy.network.counters().down_bytes > 2**24)
            for _ in range(20):
                assert b"hello" in other.get(f"http://pkg.example:{web.port}/")
            stop.set()
            assert poured.result() > 2**24


@pytest.mark.parametrize(
    "pieces", [(), (b"G",), (b"GET http://pkg.example/ HTTP/1.1\r\n", *(b"A: b\r\n" for _ in range(1000)))]
)
def test_a_request_that_takes_too_long_is_ended(proxy: Proxy, pieces: tuple[bytes, ...]) -> None:
    place = open_place(proxy, ["pkg.example"], caps=SHORT_HEAD)
    with place.connect() as client:
        for piece in pieces:
            try:
                client.sendall(piece)
            except OSError:
                break
            time.sleep(0.02)
        assert place.last().verdict == Verdict.TOO_SLOW


def test_a_tunnel_without_a_hello_is_ended(proxy: Proxy, silent: int) -> None:
    place = open_place(proxy, [f"pkg.example:{silent}"], caps=SHORT_HEAD)
    place.through_tunnel(f"pkg.example:{silent}", real_hello("pkg.example")[:50])
    assert place.last().verdict == Verdict.TOO_SLOW


def test_a_connection_on_which_nothing_moves_is_ended(proxy: Proxy, silent: int) -> None:
    place = open_place(proxy, [f"pkg.example:{silent}"], caps=SHORT_IDLE)
    assert place.through_tunnel(f"pkg.example:{silent}", real_hello("pkg.example")) == b""
    found = place.last()
    assert (found.verdict, found.words) == (Verdict.ALLOWED, "nothing was sent for 0.3 s")
    assert place.get(f"http://pkg.example:{silent}/").startswith(b"HTTP/1.1 502 ")


def test_a_download_that_moves_is_not_idle(proxy: Proxy) -> None:
    def drip(connection: socket.socket) -> None:
        connection.recv(2**16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        for _ in range(10):
            time.sleep(0.2)
            connection.sendall(b"x")

    with answering(drip) as port:
        place = open_place(proxy, [f"pkg.example:{port}"], caps=Caps(idle_seconds=1.5))
        assert place.get(f"http://pkg.example:{port}/").endswith(b"x" * 10)


def test_bytes_are_counted_over_all_connections_and_end(proxy: Proxy, web: WebServer) -> None:
    place = open_place(proxy, [f"pkg.example:{web.port}"], caps=Caps(down_bytes=1_000_000))
    url = f"http://pkg.example:{web.port}/bytes"
    assert len(place.get(f"{url}/600000")) > 600_000
    assert len(place.get(f"{url}/600000")) < 400_000
    assert place.last().verdict == Verdict.BYTES_SPENT
    assert place.network.counters().down_bytes <= 1_000_000


def test_bytes_sent_out_are_counted_and_end(proxy: Proxy, web: WebServer) -> None:
    place = open_place(proxy, [f"pkg.example:{web.port}"], caps=Caps(up_bytes=100_000))
    host = f"pkg.example:{web.port}"
    head = f"POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 200000\r\n\r\n"
    assert place.say(head.encode() + bytes(200_000)).startswith(b"HTTP/1.1 403 this box has used up its traffic")
    assert place.last().verdict == Verdict.BYTES_SPENT
    assert place.network.counters().up_bytes <= 100_000
    assert not web.seen


def test_slow_names_hold_up_only_their_own_box(web: WebServer) -> None:
    go = threading.Event()

    def resolve(name: str) -> list[Address]:
        if name.startswith("slow"):
            go.wait(SECONDS)
        return [SERVERS]

    proxy = Proxy(resolve=resolve, why_not=only_the_servers)
    try:
        slow = open_place(proxy, [f"*.slow.example:{web.port}", f"slow.example:{web.port}"], caps=SHORT_REACH)
        other = open_place(proxy, [f"pkg.example:{web.port}"])
        with ThreadPoolExecutor(40) as threads:
            asked = [threads.submit(slow.get, f"http://slow.example:{web.port}/") for _ in range(40)]
            until(lambda: slow.network.counters().open == 40)
            assert b"hello" in other.get(f"http://pkg.example:{web.port}/")
            assert all(b"502" in one.result() and b"nothing was heard of it in 0.5 s" in one.result() for one in asked)
    finally:
        proxy.close()
        go.set()
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("box-network")])


def test_closing_a_box_kills_what_lives_and_leaves_nothing(
    proxy: Proxy, web: WebServer, secure_web: WebServer, silent: int, trust: ssl.SSLContext
) -> None:
    other = open_place(proxy, [f"pkg.example:{web.port}"])
    other.get(f"http://pkg.example:{web.port}/")
    other.last()
    before, threads = descriptors(), set(threading.enumerate())
    place = open_place(proxy, [f"pkg.example:{secure_web.port}", f"pkg.example:{silent}"])
    with ExitStack() as stack:
        raw, _ = place.tunnel(f"pkg.example:{secure_web.port}")
        live = stack.enter_context(trust.wrap_socket(raw, server_hostname="pkg.example"))
        live.sendall(b"GET / HTTP/1.1\r\n\r\n")
        live.settimeout(SECONDS)
        answer = b""
        while not answer.endswith(b"hello"):
            answer += live.recv(2**16)
        sent = place.network.counters().up_bytes
        waiting = stack.enter_context(place.connect())
        host = f"pkg.example:{silent}"
        waiting.sendall(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        new = stack.enter_context(place.connect())
        until(lambda: place.network.counters().open == 3 and place.network.counters().up_bytes > sent)
        place.network.close()
        place.network.close()
        assert place.network.counters().open == 0
        for client in (waiting, new):
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert live.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            place.connect()
    verdicts = [(one.verdict, one.words) for one in place.network.log()]
    assert sorted(verdicts) == [(Verdict.ALLOWED, "the box was closed")] * 2 + [(Verdict.HUNG_UP, "the box was closed")]
    until(lambda: descriptors() == before and set(threading.enumerate()) <= threads)
    assert b"hello" in other.get(f"http://pkg.example:{web.port}/")


def test_a_copy_of_the_listener_is_of_no_use_after_the_end(proxy: Proxy) -> None:
    with listening() as listener:
        network = proxy.serve(listener.dup(), Allowlist.parse(["pkg.example"]), "1.2.1")
        network.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(listener.getsockname())


def test_a_client_that_leaves_ends_its_tunnel(proxy: Proxy, silent: int) -> None:
    place = open_place(proxy, [f"pkg.example:{silent}"])
    for _ in range(20):
        client, _ = place.tunnel(f"pkg.example:{silent}")
        with client:
            client.sendall(real_hello("pkg.example"))
    until(lambda: place.network.counters().of(Verdict.ALLOWED) == 20)
    assert place.network.counters().open == 0
