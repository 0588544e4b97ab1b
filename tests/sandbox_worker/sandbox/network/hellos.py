"""ClientHellos: real ones of OpenSSL, and such as no library would send."""

import ssl
import struct

SERVER_NAME, ENCRYPTED_HELLO = 0, 0xFE0D


def real_hello(name: str | None) -> bytes:
    """The first flight of a client that goes to a host of this name."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("no server, and yet a handshake")


def extension(kind: int, content: bytes) -> bytes:
    return struct.pack(">HH", kind, len(content)) + content


def server_name(*names: bytes, kind: int = 0) -> bytes:
    entries = b"".join(struct.pack(">BH", kind, len(name)) + name for name in names)
    return extension(SERVER_NAME, struct.pack(">H", len(entries)) + entries)


def message(*extensions: bytes) -> bytes:
    """A ClientHello with its own head, without a record's."""
    content = b"".join(extensions)
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + struct.pack(">H", len(content)) + content
    return b"\x01" + len(body).to_bytes(3) + body


def records(content: bytes, size: int = 2**14, kind: int = 22) -> bytes:
    """The same in records of at most this size."""
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    return b"".join(struct.pack(">BHH", kind, 0x0301, len(part)) + part for part in parts)
