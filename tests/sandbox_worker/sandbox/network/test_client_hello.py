"""The name that a tunnel goes to is read as its server will read it, or the tunnel is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_worker.sandbox.network.client_hello import (
    ClientHello,
    HelloError,
    HelloReader,
    HiddenNameError,
    NotTlsError,
)
from tests.sandbox_worker.sandbox.network.hellos import (
    ENCRYPTED_HELLO,
    extension,
    message,
    real_hello,
    records,
    server_name,
)

REAL = real_hello("Files.PythonHosted.org")
WHOLE = message(extension(43, b"\x02\x03\x04"), server_name(b"pypi.org"))


def read(*pieces: bytes) -> ClientHello | None:
    reader = HelloReader()
    for piece in pieces:
        if hello := reader.feed(piece):
            assert reader.received == b"".join(pieces)[: len(reader.received)]
            return hello
    return None


def said(*pieces: bytes) -> str:
    try:
        return str(read(*pieces))
    except HelloError as error:
        return f"{type(error).__name__} {error}"


def test_the_name_of_a_real_client_is_read() -> None:
    assert read(REAL) == ClientHello("files.pythonhosted.org")
    assert read(real_hello(None)) == ClientHello(None)
    assert read(real_hello("1.1.1.1")) == ClientHello(None)


def test_a_hello_may_come_in_pieces_and_records_of_any_size() -> None:
    for size in (1, 2, 3, 7, 100):
        stream = records(WHOLE, size)
        assert read(*(stream[at : at + 1] for at in range(len(stream)))) == ClientHello("pypi.org")


@given(st.integers(0, len(REAL)), st.integers(0, len(REAL)))
def test_a_real_hello_split_anywhere_is_the_same(one: int, other: int) -> None:
    first, second = sorted((one, other))
    assert read(REAL[:first], REAL[first:second], REAL[second:]) == ClientHello("files.pythonhosted.org")


@given(st.binary(max_size=400) | st.binary(max_size=200).map(lambda tail: REAL[:9] + tail), st.data())
def test_bytes_split_anywhere_are_judged_the_same(content: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(content)))
    assert said(content) == said(content[:at], content[at:])


@given(st.integers(0, len(REAL) - 1), st.integers(0, 255), st.integers(1, 60))
def test_no_changed_byte_breaks_the_reader(place: int, value: int, size: int) -> None:
    content = bytearray(REAL)
    content[place] = value
    pieces = [bytes(content[at : at + size]) for at in range(0, len(content), size)]
    assert said(bytes(content)) == said(*pieces)


@pytest.mark.parametrize("length", range(len(records(WHOLE))))
def test_a_part_of_a_hello_is_none_yet(length: int) -> None:
    assert read(records(WHOLE)[:length]) is None


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x80\x2e\x01\x00\x02",  # the hello of SSL 2
        b"\x16\x02\x00",
        records(WHOLE, kind=23),
        b"\x16\x03\x01\x00\x00" + records(WHOLE),
        b"\x16\x03\x01\x40\x01",
        records(b"\x02" + WHOLE[1:]),
        records(b"\x01\xff\xff\xff"),
        records(WHOLE + b"\x01"),
        records(WHOLE[:20]) + records(b"\x01", kind=20) + records(WHOLE[20:]),
        records(message(server_name(b"pypi.org"), server_name(b"evil.org"))),
        records(message(server_name(b"pypi.org", b"evil.org"))),
        records(message(server_name(b"pypi.org", kind=1))),
        records(message(server_name(b"pypi.org\0.evil.org"))),
        records(message(server_name(b"pypi.org."))),
        records(message(server_name(b""))),
        records(message(server_name(b"1.1.1.1"))),
        records(message(server_name("bücher.example".encode()))),
        records(message(server_name())),
        records(message(extension(0, b""))),
        records(message(extension(0, b"\0\x0b\0\0\x08pypi.orgX"))),
        records(message(server_name(b"pypi.org"), b"\0\x15\xff\xff")),
        records(message(server_name(b"pypi.org"), b"\0")),
    ],
)
def test_what_is_no_clear_hello_is_refused(content: bytes) -> None:
    with pytest.raises(NotTlsError):
        read(content)


@pytest.mark.parametrize("kind", [ENCRYPTED_HELLO, 0xFFCE])
def test_a_hello_with_an_encrypted_one_inside_is_refused(kind: int) -> None:
    with pytest.raises(HiddenNameError):
        read(records(message(server_name(b"pypi.org"), extension(kind, bytes(100)))))


def test_a_hello_without_end_is_refused() -> None:
    reader = HelloReader()
    reader.feed(records(b"\x01\0\xff\x00" + bytes(2**15)))
    with pytest.raises(NotTlsError):
        reader.feed(records(bytes(2**15)))
    assert len(reader.received) < 2**17
