"""The hosts that a task's boxes may reach: names, names below one ("*.pythonhosted.org"), public addresses."""

from collections.abc import Iterable
from dataclasses import dataclass

from sandbox_worker.sandbox.base import SandboxError
from sandbox_worker.sandbox.network.addresses import why_not_public
from sandbox_worker.sandbox.network.hostname import HostnameError, literal, normal_name, split_port
from sandbox_worker.sandbox.network.suffixes import is_open_to_all

WEB_PORTS = frozenset({80, 443})
MOST_PATTERNS = 256


class AllowlistError(SandboxError):
    """A list of hosts that cannot be meant."""


class PatternError(AllowlistError):
    """A pattern of an allow-list that cannot be meant, or would allow too much."""

    def __init__(self, pattern: str, why: str, mend: str) -> None:
        super().__init__(f"The host {pattern!r} cannot be allowed: {why}. {mend}")
        self.pattern = pattern
        self.why = why
        self.mend = mend


@dataclass(frozen=True)
class Pattern:
    host: str
    """A name, or a public address as ipaddress writes it."""
    below: bool
    """Every name below the host, at any depth, and not the host itself."""
    ports: frozenset[int]

    def covers(self, host: str) -> bool:
        return host.endswith(f".{self.host}") if self.below else host == self.host


@dataclass(frozen=True)
class Allowlist:
    patterns: tuple[Pattern, ...]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "Allowlist":
        """Raises AllowlistError, PatternError."""
        patterns = tuple(parse_pattern(text) for text in texts)
        if not patterns:
            raise AllowlistError("The list of allowed hosts is empty. Name a host, or give the boxes no network.")
        if len(patterns) > MOST_PATTERNS:
            raise AllowlistError(f"The list of allowed hosts has {len(patterns)}. Name {MOST_PATTERNS} at most.")
        return cls(patterns)

    def ports(self, host: str) -> frozenset[int]:
        """Of a host in its normal form; none where it is not on the list."""
        return frozenset(port for pattern in self.patterns if pattern.covers(host) for port in pattern.ports)


def parse_pattern(text: str) -> Pattern:
    """'host', '*.host', 'host:port', '[IPv6]:port'; without a port the two of the web. Raises PatternError."""
    _refuse_what_is_no_host(text)
    try:
        written, port = split_port(text)
        ports = WEB_PORTS if port is None else frozenset({port})
        return _of_address(text, ports, written) or _of_name(text, ports, written)
    except HostnameError as error:
        raise PatternError(text, str(error), "Write a name such as pypi.org, or pypi.org:8443.") from error


def _refuse_what_is_no_host(text: str) -> None:
    if any(mark in text for mark in "/@?#"):
        raise PatternError(text, "it is more than a host", "Write the host alone, as pypi.org.")
    if not text.isprintable() or " " in text:
        raise PatternError(text, "it has white space or control characters in it", "Write one host a pattern.")


def _of_address(text: str, ports: frozenset[int], written: str) -> Pattern | None:
    address = literal(written)
    if address is None:
        return None
    if why := why_not_public(address):
        raise PatternError(text, f"this address is {why}", "Only addresses of the public internet can be allowed.")
    return Pattern(str(address), False, ports)


def _of_name(text: str, ports: frozenset[int], written: str) -> Pattern:
    name = written.removeprefix("*.")
    if "*" in name:
        raise PatternError(text, "a * stands only for the whole start, before a dot", "Write *.example.org.")
    host = normal_name(name)
    below = name != written
    if below and is_open_to_all(host):
        raise PatternError(text, f"anybody can have a name below {host}", "Name the hosts that the task needs.")
    if "." not in host:
        raise PatternError(text, "it is no name of the public internet", "Write the full name, as pypi.org.")
    return Pattern(host, below, ports)
