"""What is allowed works as without the proxy, and everything is written down."""

import logging
import socket
import ssl
import threading

import httpx
import pytest

from sandbox_worker.sandbox.network.allowlist import Allowlist
from sandbox_worker.sandbox.network.caps import Caps
from sandbox_worker.sandbox.network.proxy import Proxy, ProxyError
from sandbox_worker.sandbox.network.verdict import Verdict
from tests.sandbox_worker.sandbox.network.hellos import real_hello, records
from tests.sandbox_worker.sandbox.network.world import (
    CHUNKS,
    Names,
    Place,
    WebServer,
    answering,
    listening,
    open_place,
    until,
)


@pytest.fixture
def place(proxy: Proxy, web: WebServer) -> Place:
    return open_place(proxy, [f"pkg.example:{web.port}"])


@pytest.fixture
def secure(proxy: Proxy, secure_web: WebServer) -> Place:
    return open_place(proxy, [f"pkg.example:{secure_web.port}"])


def client_of(place: Place, trust: ssl.SSLContext) -> httpx.Client:
    return httpx.Client(proxy=f"http://127.0.0.1:{place.port}", verify=trust, trust_env=False)


def test_a_plain_request_is_passed_on_and_written_down(
    place: Place, web: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        answer = place.get(f"http://pkg.example:{web.port}/a?b=c", "Proxy-Connection: keep-alive")
        found = place.last()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == b"hello"
    assert web.seen == [("/a?b=c", [("host", f"pkg.example:{web.port}"), ("connection", "close")])]
    assert (found.method, found.host, found.port, found.verdict) == ("GET", "pkg.example", web.port, Verdict.ALLOWED)
    assert found.up_bytes > 0
    assert found.down_bytes > len(body)
    assert place.network.counters().of(Verdict.ALLOWED) == 1
    assert any("box 1.2.1: GET pkg.example" in line for line in caplog.messages)


def test_a_usual_client_gets_bodies_of_every_kind(place: Place, web: WebServer, trust: ssl.SSLContext) -> None:
    url = f"http://pkg.example:{web.port}"
    with client_of(place, trust) as client:
        assert client.head(url).headers["Content-Length"] == "12345"
        assert client.get(f"{url}/chunks").content == b"hello" * CHUNKS
        assert client.get(f"{url}/bytes/3000000").content == bytes(3_000_000)
        assert client.post(url, content=b"x" * 500_000).content == b"x" * 500_000
        assert client.post(url, content=iter([b"one", b"two"])).content == b"onetwo"


def test_a_usual_client_gets_through_a_tunnel(secure: Place, secure_web: WebServer, trust: ssl.SSLContext) -> None:
    url = f"https://pkg.example:{secure_web.port}"
    with client_of(secure, trust) as client:
        assert client.get(f"{url}/bytes/3000000").content == bytes(3_000_000)
        assert client.post(url, content=b"x" * 500_000).content == b"x" * 500_000
    found = secure.last()
    assert (found.method, found.verdict) == ("CONNECT", Verdict.ALLOWED)
    assert found.up_bytes > 500_000
    assert found.down_bytes > 3_000_000


def test_a_hello_may_come_with_the_request_or_byte_by_byte(secure: Place, secure_web: WebServer) -> None:
    target = f"pkg.example:{secure_web.port}"
    hello = real_hello("pkg.example")
    with secure.connect() as client:
        client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode() + hello)
        answer = b""
        while b"\r\n\r\n\x16" not in answer:  # the server's handshake follows
            answer += client.recv(2**16)
    client, _ = secure.tunnel(target)
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in records(hello[5:], 50):
            client.send(bytes([byte]))
        assert client.recv(1) == b"\x16"


def test_a_name_that_is_not_listed_is_refused_in_plain_words(place: Place, web: WebServer, names: Names) -> None:
    answer = place.get("http://evil.example/")
    assert answer.startswith(b"HTTP/1.1 403 evil.example is not on this task's list of hosts\r\n")
    assert answer.endswith(b"\r\n\r\nevil.example is not on this task's list of hosts\n")
    head = place.refusal(f"evil.example:{web.port}")
    assert head.startswith(b"HTTP/1.1 403 evil.example is not on")
    assert place.last().verdict == Verdict.HOST_NOT_ALLOWED
    assert not names.asked
    assert not web.seen


def test_a_host_that_is_away_is_a_502_in_plain_words(proxy: Proxy) -> None:
    with listening() as gone:
        port = gone.getsockname()[1]
    place = open_place(proxy, [f"pkg.example:{port}", "nowhere.org"])
    assert b"502 pkg.example:%d is on this task's list of hosts, but cannot be reached" % port in place.get(
        f"http://pkg.example:{port}/"
    )
    assert b"no address was found for this name" in place.get("http://nowhere.org/")
    assert place.last().verdict == Verdict.UNREACHABLE


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000, b"HTTP/1.1 101 x\r\n\r\n"]
)
def test_a_server_that_speaks_no_http_is_a_502(proxy: Proxy, answer: bytes) -> None:
    def speak(connection: socket.socket) -> None:
        connection.recv(2**16)
        connection.sendall(answer)

    with answering(speak) as port:
        place = open_place(proxy, [f"pkg.example:{port}"])
        assert place.get(f"http://pkg.example:{port}/").startswith(b"HTTP/1.1 502 ")
        assert place.last().verdict == Verdict.UNREACHABLE


def test_a_server_that_asks_for_more_is_passed_on(proxy: Proxy) -> None:
    def speak(connection: socket.socket) -> None:
        connection.recv(2**16)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = connection.recv(2**16)
        connection.sendall(b"HTTP/1.0 200 OK\r\nKeep-Alive: 1\r\n\r\n" + body)

    with answering(speak) as port:
        place = open_place(proxy, [f"pkg.example:{port}"])
        head = f"POST http://pkg.example:{port}/ HTTP/1.1\r\nHost: pkg.example:{port}\r\nExpect: 100-continue\r\n"
        with place.connect() as client:
            client.sendall(f"{head}Content-Length: 3\r\n\r\n".encode())
            assert client.recv(2**16).startswith(b"HTTP/1.1 100 ")
            client.sendall(b"abc")
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):
                answer += client.recv(2**16)
    assert b"3\r\nabc\r\n" in answer
    assert b"Keep-Alive" not in answer


def test_boxes_have_lists_and_logs_of_their_own(proxy: Proxy, web: WebServer) -> None:
    one = open_place(proxy, [f"pkg.example:{web.port}"], label="1.1.1")
    other = open_place(proxy, [f"other.example:{web.port}"], label="1.2.1")
    assert b"hello" in one.get(f"http://pkg.example:{web.port}/")
    assert b"403" in other.get(f"http://pkg.example:{web.port}/")
    assert [one.last().verdict, other.last().verdict] == [Verdict.ALLOWED, Verdict.HOST_NOT_ALLOWED]
    one.network.close()
    assert b"hello" in other.get(f"http://other.example:{web.port}/")


def test_what_does_not_listen_is_refused_and_closed(proxy: Proxy) -> None:
    hosts = Allowlist.parse(["pkg.example"])
    for kind in (
        (socket.AF_INET, socket.SOCK_STREAM),
        (socket.AF_INET, socket.SOCK_DGRAM),
        (socket.AF_UNIX, socket.SOCK_STREAM),
    ):
        given = socket.socket(*kind)
        with pytest.raises(ProxyError):
            proxy.serve(given, hosts, "1.2.1")
        assert given.fileno() == -1


def test_a_closed_proxy_serves_nobody_and_leaves_no_thread(names: Names) -> None:
    threads = set(threading.enumerate())
    proxy = Proxy(resolve=names)
    place = open_place(proxy, ["pkg.example"], caps=Caps())
    proxy.close()
    proxy.close()
    place.network.close()
    with pytest.raises(ProxyError), listening() as listener:
        proxy.serve(listener, Allowlist.parse(["pkg.example"]), "1.2.1")
    with pytest.raises(ConnectionRefusedError):
        place.connect()
    until(lambda: set(threading.enumerate()) <= threads)
