"""Names of hosts in one form: lower case, ASCII (IDNA), no dot at the end. What has no such form is refused."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

import idna

from sandbox_worker.sandbox.base import SandboxError

Address = IPv4Address | IPv6Address

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LONGEST = 253


class HostnameError(SandboxError):
    """No name of a host and no address."""


def normal_host(text: str) -> str:
    """A name, or an address as ipaddress writes it, without brackets. Raises HostnameError."""
    address = literal(text)
    return normal_name(text) if address is None else str(address)


def normal_name(text: str) -> str:
    """Raises HostnameError, also for what a resolver would read as an address ('127.1', '0x7f000001')."""
    name = (text if text.isascii() else _ascii(text)).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST or not all(_LABEL.fullmatch(label) for label in labels):
        raise HostnameError("it is no name of a host")
    if _NUMBER.fullmatch(labels[-1]):
        raise HostnameError("a resolver would read it as an address")
    return name


def _ascii(text: str) -> str:
    try:
        return idna.encode(text, uts46=True).decode()
    except UnicodeError as error:
        raise HostnameError("it is no name of a host, also not of an international one") from error


def literal(text: str) -> Address | None:
    """The address that is written here in its usual form, an IPv6 one with brackets or without."""
    bracketed = text.startswith("[") and text.endswith("]")
    inside = text[1:-1] if bracketed else text
    try:
        address = ip_address(inside)
    except ValueError:
        return None
    return None if "%" in inside or (bracketed and address.version == 4) else address


def split_port(text: str) -> tuple[str, int | None]:
    """The host as it is written, and the port where one is. Raises HostnameError."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.endswith("]")):
        return text, None
    if not _PORT.fullmatch(port) or int(port) > 65535:
        raise HostnameError("its port is no number from 1 to 65535")
    return host, int(port)
