"""What a client asks of the proxy: a tunnel (CONNECT), or one plain request by its absolute address.

The head is taken apart by h11 and always written anew, so that no two readers can see two different requests in it.
"""

from dataclasses import dataclass

import h11

from sandbox_worker.sandbox.network.hostname import HostnameError, literal, normal_host, split_port
from sandbox_worker.sandbox.network.verdict import NoPassageError, Verdict

MOST_HEADERS = 100
MOST_HEAD_BYTES = 32 * 2**10
_SCHEME = "http://"
_OF_ONE_CONNECTION = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"),
        *(b"proxy-authenticate", b"proxy-authorization", b"proxy-authentication-info"),
    }
)

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Asked:
    method: str
    host: str
    """In its normal form; an IPv6 address without brackets."""
    port: int
    path: bytes
    """With the query; empty for a tunnel."""

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    @property
    def is_literal(self) -> bool:
        return literal(self.host) is not None


def asked_by(head: h11.Request) -> Asked:
    """Raises NoPassageError."""
    if len(head.headers) > MOST_HEADERS:
        raise bad(f"a request may have {MOST_HEADERS} headers")
    names = [name for name, _ in head.headers]
    framed = [name for name in names if name in (b"content-length", b"transfer-encoding")]
    if len(framed) > 1:
        raise bad("a request may say its length once, in one way")
    if head.method == b"CONNECT":
        if framed:
            raise bad("a CONNECT has no body")
        return _asked("CONNECT", head.target.decode(), b"", port=None)
    return _plain(head)


def _plain(head: h11.Request) -> Asked:
    target = head.target.decode()
    if target[: len(_SCHEME)].lower() != _SCHEME:
        raise bad("this is a proxy: ask for http://host/path, or CONNECT host:443 for https")
    rest = target[len(_SCHEME) :]
    end = min((place for mark in "/?" if (place := rest.find(mark)) >= 0), default=len(rest))
    path = rest[end:] if rest[end:].startswith("/") else f"/{rest[end:]}"
    if "#" in rest:
        raise bad("an address that is asked for has no fragment")
    asked = _asked(head.method.decode(), rest[:end], path.encode(), port=80)
    _same_host(asked, head)
    return asked


def _same_host(asked: Asked, head: h11.Request) -> None:
    said = [value.decode("latin-1") for name, value in head.headers if name == b"host"]
    if len(said) != 1:
        raise bad("a request has one Host header")
    try:
        named = _asked(asked.method, said[0], asked.path, port=80)
    except NoPassageError:
        named = None
    if named != asked:
        words = f"the Host header is not that of {asked.host}, which is asked for"
        raise NoPassageError(Verdict.HOST_HEADER_DIFFERS, words, f"Host: {said[0][:200]!a}")


def _asked(method: str, authority: str, path: bytes, *, port: int | None) -> Asked:
    try:
        written, named = split_port(authority)
        host = normal_host(written)
    except HostnameError as error:
        raise bad(f"{authority[:100]!a} is no host: {error}") from error
    if (port := named or port) is None:
        raise bad("a CONNECT names a port, as in pypi.org:443")
    return Asked(method, host, port, path)


def end_to_end(headers: Headers) -> Headers:
    """Without those that speak of one connection only."""
    named = {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")} - {
        b"content-length",
        b"transfer-encoding",
        b"host",
    }
    return [(name, value) for name, value in headers if name not in _OF_ONE_CONNECTION and name not in named]


def onward(asked: Asked, head: h11.Request) -> h11.Request:
    """The request as the host gets it."""
    host = f"[{asked.host}]" if ":" in asked.host else asked.host
    place = host if asked.port == 80 else f"{host}:{asked.port}"
    kept = [(name, value) for name, value in end_to_end(list(head.headers)) if name != b"host"]
    headers = [(b"host", place.encode()), *kept, (b"connection", b"close")]
    return h11.Request(method=head.method, target=asked.path, headers=headers)


def back(head: h11.Response) -> h11.Response:
    """The answer's head as the client gets it."""
    headers = [*end_to_end(list(head.headers)), (b"connection", b"close")]
    return h11.Response(status_code=head.status_code, reason=head.reason, headers=headers)


def bad(words: str) -> NoPassageError:
    return NoPassageError(Verdict.BAD_REQUEST, words)
