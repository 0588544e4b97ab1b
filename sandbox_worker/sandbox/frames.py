"""The frames between a worker and the supervisor in a box: a kind, a length, a payload.

A request is a header, any data, a finish; a reply is any data, then a header. A header is a list of fields without
NUL: nothing in it has to be parsed that the box could have made hard to parse. Between requests, and while a command
runs, the worker may renew the box's lease or cancel the command. The other end is supervisor/channel.c.
"""

import os
import struct

HEADER, DATA, FINISH, RENEW, CANCEL = b"H", b"D", b"E", b"R", b"C"
READY = ["ready"]
FRAME = struct.Struct(">cI")
CHUNK = 1 << 18
MAX_HEADER = 16 * 2**20


def frame(kind: bytes, payload: bytes | memoryview) -> bytes:
    return FRAME.pack(kind, len(payload)) + payload


def unsendable(fields: list[str]) -> str:
    """Why they cannot be sent; empty if they can. A language model writes what it likes into a command."""
    try:
        encode(fields)
    except ValueError as error:
        return str(error)
    return ""


def encode(fields: list[str]) -> bytes:
    """Raises ValueError where a field holds a NUL or half a character, or where all are more than a header holds."""
    if any("\0" in field for field in fields):
        raise ValueError("A NUL byte cannot be sent to a box.")
    payload = os.fsencode("\0".join(fields))
    if len(payload) > MAX_HEADER:
        raise ValueError(f"No more than {MAX_HEADER} bytes of words can be sent to a box at once.")
    return payload


def decode(payload: bytes) -> list[str]:
    return os.fsdecode(payload).split("\0")
