"""What is asked of the proxy is read in one way only."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_worker.sandbox.network.request import MOST_HEADERS, Asked, asked_by, back, onward
from sandbox_worker.sandbox.network.verdict import NoPassageError, Verdict


def head(method: str, target: str, *headers: tuple[str, str]) -> h11.Request:
    return h11.Request(method=method, target=target, headers=list(headers))


def plain(target: str, host: str, *headers: tuple[str, str]) -> h11.Request:
    return head("GET", target, ("Host", host), *headers)


def verdict_on(request: h11.Request) -> Verdict:
    with pytest.raises(NoPassageError) as caught:
        asked_by(request)
    return caught.value.verdict


@pytest.mark.parametrize(
    ("target", "host", "asked"),
    [
        ("http://pypi.org/simple/?a=1", "pypi.org", Asked("GET", "pypi.org", 80, b"/simple/?a=1")),
        ("HTTP://PyPI.org.", "pypi.org:80", Asked("GET", "pypi.org", 80, b"/")),
        ("http://pypi.org?a=/b", "PYPI.ORG", Asked("GET", "pypi.org", 80, b"/?a=/b")),
        ("http://pypi.org:8080/", "pypi.org:8080", Asked("GET", "pypi.org", 8080, b"/")),
        ("http://[::1]:8080/", "[::1]:8080", Asked("GET", "::1", 8080, b"/")),
    ],
)
def test_a_plain_request_names_its_host(target: str, host: str, asked: Asked) -> None:
    assert asked_by(plain(target, host)) == asked


def test_a_tunnel_names_host_and_port() -> None:
    assert asked_by(head("CONNECT", "PyPI.org:443", ("Host", "x"))) == Asked("CONNECT", "pypi.org", 443, b"")
    assert verdict_on(head("CONNECT", "pypi.org", ("Host", "x"))) == Verdict.BAD_REQUEST


@pytest.mark.parametrize(
    "host", ["evil.org", "pypi.org:8080", "pypi.org evil.org", "", "me@pypi.org", "pypi.org,evil.org"]
)
def test_the_host_header_is_that_of_the_address(host: str) -> None:
    assert verdict_on(plain("http://pypi.org/", host)) == Verdict.HOST_HEADER_DIFFERS


@pytest.mark.parametrize(
    "target",
    [
        *("/", "*", "https://pypi.org/", "ftp://pypi.org/", "//pypi.org/", "http:/pypi.org/", "http://", "http:///"),
        *(
            "http://me@pypi.org/",
            "http://pypi.org:/",
            "http://pypi.org:0/",
            "http://pypi.org#a",
            "http://pypi.org\\@evil.org/",
        ),
        *("http://127.1/", "http://0x7f000001/", "http://[fe80::1%25eth0]/", "http://[::1/", "http://a_b.org/"),
    ],
)
def test_no_other_form_of_an_address_is_taken(target: str) -> None:
    assert verdict_on(plain(target, "pypi.org")) == Verdict.BAD_REQUEST


@pytest.mark.parametrize(
    "headers",
    [
        (("Content-Length", "3"), ("Transfer-Encoding", "chunked")),
        (("Connection", "x"),) * MOST_HEADERS,
    ],
)
def test_a_length_is_said_once_and_headers_are_counted(headers: tuple[tuple[str, str], ...]) -> None:
    assert verdict_on(plain("http://pypi.org/", "pypi.org", *headers)) == Verdict.BAD_REQUEST


def test_a_tunnel_has_no_body() -> None:
    assert verdict_on(head("CONNECT", "a.org:443", ("Host", "x"), ("Content-Length", "3"))) == Verdict.BAD_REQUEST


def test_headers_of_one_connection_go_no_further() -> None:
    request = plain(
        "http://pypi.org:8080/a",
        "pypi.org:8080",
        ("Connection", "x-secret, Content-Length, keep-alive"),
        ("X-Secret", "1"),
        ("Proxy-Authorization", "Basic x"),
        ("Upgrade", "websocket"),
        ("Content-Length", "3"),
        ("Accept", "*/*"),
    )
    sent = onward(asked_by(request), request)
    assert sent.target == b"/a"
    assert list(sent.headers) == [
        (b"host", b"pypi.org:8080"),
        (b"content-length", b"3"),
        (b"accept", b"*/*"),
        (b"connection", b"close"),
    ]
    answer = back(
        h11.Response(status_code=200, headers=[("Keep-Alive", "x"), ("Connection", "keep-alive"), ("A", "b")])
    )
    assert list(answer.headers) == [(b"a", b"b"), (b"connection", b"close")]


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=60), st.sampled_from(["GET", "CONNECT"]))
def test_no_target_breaks_the_reader(text: str, method: str) -> None:
    for target in (f"http://{text}", text or "/"):
        try:
            asked = asked_by(head(method, target, ("Host", text)))
        except NoPassageError:
            continue
        assert asked.host
        assert 0 < asked.port < 65536


@given(st.text(max_size=60))
def test_no_words_break_an_answer(words: str) -> None:
    head, _, body = NoPassageError(Verdict.UNREACHABLE, words).answer.partition(b"\r\n\r\n")
    first, *headers = head.split(b"\r\n")
    assert first.startswith(b"HTTP/1.1 502 ")
    assert first.isascii()
    assert len(headers) == 3
    assert len(body) == len(words) + 1
