"""Ways round a list of hosts: each is blocked, and written down with its reason."""

import socket
from ipaddress import ip_address

import pytest

from sandbox_worker.sandbox.network.hostname import Address
from sandbox_worker.sandbox.network.proxy import Proxy
from sandbox_worker.sandbox.network.tunnel import ACCESS_DENIED
from sandbox_worker.sandbox.network.verdict import Verdict
from tests.sandbox_worker.sandbox.network.hellos import (
    ENCRYPTED_HELLO,
    extension,
    message,
    real_hello,
    records,
    server_name,
)
from tests.sandbox_worker.sandbox.network.world import (
    SERVERS,
    Names,
    Place,
    WebServer,
    answering,
    drain,
    only_the_servers,
    open_place,
)


@pytest.fixture
def place(proxy: Proxy, web: WebServer) -> Place:
    return open_place(proxy, [f"pkg.example:{web.port}", f"*.known.org:{web.port}", "pkg.example:443"])


@pytest.mark.parametrize(
    ("first", "verdict"),
    [
        (real_hello("evil.example"), Verdict.SERVER_NAME_DIFFERS),
        (real_hello("sub.pkg.example"), Verdict.SERVER_NAME_DIFFERS),
        (real_hello(None), Verdict.NO_SERVER_NAME),
        (
            records(message(server_name(b"cdn.example"), extension(ENCRYPTED_HELLO, bytes(9)))),
            Verdict.SERVER_NAME_HIDDEN,
        ),
        (
            records(message(server_name(b"pkg.example"), extension(ENCRYPTED_HELLO, bytes(9)))),
            Verdict.SERVER_NAME_HIDDEN,
        ),
        (records(message(server_name(b"pkg.example"), server_name(b"evil.example"))), Verdict.NOT_TLS),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", Verdict.NOT_TLS),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Verdict.NOT_TLS),
    ],
)
def test_a_tunnel_goes_only_where_it_says_in_the_clear(proxy: Proxy, first: bytes, verdict: Verdict) -> None:
    got: list[bytes] = []
    with answering(lambda connection: got.append(drain(connection))) as port:
        place = open_place(proxy, [f"pkg.example:{port}"])
        assert place.through_tunnel(f"pkg.example:{port}", first) == ACCESS_DENIED
        found = place.last()
    assert (found.verdict, found.up_bytes, found.host) == (verdict, 0, "pkg.example")
    assert b"".join(got) == b""


def test_a_later_record_cannot_change_the_name(proxy: Proxy) -> None:
    with answering(lambda connection: connection.settimeout(5)) as port:
        place = open_place(proxy, [f"pkg.example:{port}"])
        content = message(server_name(b"pkg.example"))
        place.through_tunnel(f"pkg.example:{port}", records(content[:40]), records(content[40:] + b"\x01\0\0\0"))
        assert place.last().verdict == Verdict.NOT_TLS


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "169.254.169.254", "1.1.1.1", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]"),
        *("[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[fd00:ec2::254]", "[2606:4700::1111]", "0.0.0.0", "[::]"),
    ],
)
def test_an_address_in_place_of_a_name_is_refused(place: Place, web: WebServer, host: str, names: Names) -> None:
    head = place.refusal(f"{host}:{web.port}")
    assert head.startswith(b"HTTP/1.1 403 ")
    assert place.last().verdict == Verdict.IP_LITERAL
    assert b"403" in place.get(f"http://{host}:{web.port}/")
    assert place.last().verdict == Verdict.IP_LITERAL
    assert not names.asked


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[fe80::1%lo]", "127.0.0.1."])
def test_an_address_in_disguise_is_refused(place: Place, host: str, names: Names) -> None:
    head = place.refusal(f"{host}:443")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert place.last().verdict == Verdict.BAD_REQUEST
    assert not names.asked


def test_another_port_is_refused(place: Place) -> None:
    for target in ("pkg.example:22", "pkg.example:80", "pkg.example:25"):
        head = place.refusal(target)
        assert head.startswith(b"HTTP/1.1 403 pkg.example is on this task's list of hosts, but not port ")
        assert place.last().verdict == Verdict.PORT_NOT_ALLOWED


def test_ssh_gets_nowhere_at_a_port_that_is_allowed(proxy: Proxy) -> None:
    with answering(lambda connection: connection.sendall(b"SSH-2.0-server\r\n")) as port:
        place = open_place(proxy, [f"pkg.example:{port}"])
        assert place.through_tunnel(f"pkg.example:{port}", b"SSH-2.0-client\r\n") == ACCESS_DENIED


def test_a_redirect_is_for_the_client_and_is_checked_when_it_comes_back(place: Place, web: WebServer) -> None:
    answer = place.get(f"http://pkg.example:{web.port}/to/evil.example")
    assert b"302" in answer
    assert b"http://evil.example/" in answer
    assert place.get("http://evil.example/").startswith(b"HTTP/1.1 403 evil.example is not on")
    assert place.last().verdict == Verdict.HOST_NOT_ALLOWED
    assert [one.allowed for one in place.network.log()] == [True, False]
    assert len(web.seen) == 1


@pytest.mark.parametrize(
    "addresses",
    [
        *(["169.254.169.254"], ["127.0.0.2"], ["10.0.0.1"], ["100.100.100.200"], ["168.63.129.16"], ["0.0.0.0"]),
        *(
            ["::1"],
            ["::ffff:127.0.0.1"],
            ["64:ff9b::7f00:1"],
            ["2002:7f00:1::"],
            ["fe80::1"],
            ["fd00:ec2::254"],
            ["ff02::1"],
        ),
        *(["127.0.0.1", "169.254.169.254"], ["203.0.113.1"]),
    ],
)
def test_a_listed_name_that_leads_inside_is_refused(
    place: Place, web: WebServer, names: Names, addresses: list[str]
) -> None:
    names.known["metadata.known.org"] = addresses
    for answer in (
        place.get(f"http://metadata.known.org:{web.port}/"),
        place.refusal(f"metadata.known.org:{web.port}"),
    ):
        assert answer.startswith(
            b"HTTP/1.1 403 metadata.known.org leads to an address that is not of the public internet"
        )
        assert addresses[-1].encode() not in answer
    found = place.last()
    assert found.verdict == Verdict.ADDRESS_NOT_PUBLIC
    assert str(ip_address(addresses[-1])) in found.words
    assert not web.seen


def test_a_name_is_resolved_once_and_only_that_address_is_used(web: WebServer) -> None:
    """DNS rebinding: fit when it is checked, and inside when it is used."""
    asked: list[str] = []
    checked: list[Address] = []

    def rebinding(name: str) -> list[Address]:
        asked.append(name)
        return [SERVERS if len(asked) == 1 else type(SERVERS)("127.0.0.2")]

    def remembering(address: Address) -> str:
        checked.append(address)
        return only_the_servers(address)

    proxy = Proxy(resolve=rebinding, why_not=remembering)
    try:
        place = open_place(proxy, [f"pkg.example:{web.port}"])
        assert b"200" in place.get(f"http://pkg.example:{web.port}/")
        assert (asked, checked) == (["pkg.example"], [SERVERS])
        assert b"403" in place.get(f"http://pkg.example:{web.port}/")
        assert place.last().verdict == Verdict.ADDRESS_NOT_PUBLIC
    finally:
        proxy.close()


def test_the_product_itself_leads_nobody_to_this_host(web: WebServer, names: Names) -> None:
    proxy = Proxy(resolve=names)
    try:
        place = open_place(proxy, [f"pkg.example:{web.port}"])
        assert b"403" in place.get(f"http://pkg.example:{web.port}/")
        assert place.last().verdict == Verdict.ADDRESS_NOT_PUBLIC
    finally:
        proxy.close()
    assert not web.seen


def test_the_host_header_cannot_name_another_host(place: Place, web: WebServer) -> None:
    url = f"http://pkg.example:{web.port}/"
    answer = place.say(f"GET {url} HTTP/1.1\r\nHost: evil.example\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 the Host header is not that of pkg.example")
    assert place.last().verdict == Verdict.HOST_HEADER_DIFFERS
    twice = f"GET {url} HTTP/1.1\r\nHost: pkg.example:{web.port}\r\nHost: evil.example\r\n\r\n"
    assert place.say(twice.encode()).startswith(b"HTTP/1.1 400 ")
    assert not web.seen


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Content-Length: 3\r\nContent-Length: 4",
        "Content-Length: +3",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    ],
)
def test_a_request_that_could_be_two_is_refused(place: Place, web: WebServer, framing: str) -> None:
    host = f"pkg.example:{web.port}"
    smuggled = f"0\r\n\r\nGET http://evil.example/ HTTP/1.1\r\nHost: {host}\r\n\r\n"
    place.say(f"POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{framing}\r\n\r\n{smuggled}".encode())
    assert place.last().verdict == Verdict.BAD_REQUEST
    assert not web.seen


def test_what_follows_a_request_is_never_passed_on(place: Place, web: WebServer) -> None:
    host = f"pkg.example:{web.port}"
    one = f"POST http://{host}/one HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n\r\nabc"
    answer = place.say((one + one.replace("/one", "/two")).encode())
    assert answer.count(b"HTTP/1.1 ") == 1
    assert [path for path, _ in web.seen] == ["/one"]


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 1000,
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET http://pkg.example/ HTTP/1.1\nHost: pkg.example\r\n b: c\x01\n\n",
        b"GET http://pkg.example/\r\nEvil: 1 HTTP/1.1\r\n\r\n",
        b"GET http://pkg.example/ HTTP/2.0\r\nHost: pkg.example\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: pkg.example\r\n\r\n",
        b"\x05\x01\x00",
        real_hello("pkg.example"),
        b"GET http://pkg.example/" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET http://pkg.example/ HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
        b"GET http://pkg.example/ HTTP/1.1\r\nHost: pkg.example\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    ],
)
def test_garbage_is_refused(place: Place, web: WebServer, content: bytes) -> None:
    with place.connect() as client:
        try:
            client.sendall(content)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(20).startswith((b"HTTP/1.1 400 ", b""))
        except (ConnectionResetError, BrokenPipeError):
            pass  # it was too much to be read to its end
    assert not place.last().allowed
    assert not web.seen
