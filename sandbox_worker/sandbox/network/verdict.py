"""What the proxy says of a request: let through, or why not."""

from enum import StrEnum

from sandbox_worker.sandbox.base import SandboxError


class Verdict(StrEnum):
    ALLOWED = "allowed"
    HOST_NOT_ALLOWED = "host_not_allowed"
    PORT_NOT_ALLOWED = "port_not_allowed"
    IP_LITERAL = "ip_literal"
    ADDRESS_NOT_PUBLIC = "address_not_public"
    """The name is on the list, and leads where no box may go."""
    HOST_HEADER_DIFFERS = "host_header_differs"
    NOT_TLS = "not_tls"
    NO_SERVER_NAME = "no_server_name"
    SERVER_NAME_DIFFERS = "server_name_differs"
    SERVER_NAME_HIDDEN = "server_name_hidden"
    BYTES_SPENT = "bytes_spent"
    BAD_REQUEST = "bad_request"
    TOO_SLOW = "too_slow"
    UNREACHABLE = "unreachable"
    """Nobody's guilt in the box: the name has no address, or the server does not answer as it should."""
    HUNG_UP = "hung_up"
    """The client left before it was answered, or its box was closed."""


_STATUS = {Verdict.BAD_REQUEST: 400, Verdict.TOO_SLOW: 408, Verdict.UNREACHABLE: 502}
_REFUSED = 403
CRLF = "\r\n"


class NoPassageError(SandboxError):
    """Ends a connection. The agent reads the words; the detail is for the log alone."""

    def __init__(self, verdict: Verdict, words: str, detail: str = "") -> None:
        super().__init__(words)
        self.verdict = verdict
        self.words = words
        self.detail = detail

    @property
    def answer(self) -> bytes:
        """As HTTP, with the words in the first line too: of a refused CONNECT most clients show only that."""
        words = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in self.words)
        head = (
            f"HTTP/1.1 {_STATUS.get(self.verdict, _REFUSED)} {words}",
            "Content-Type: text/plain",
            f"Content-Length: {len(words) + 1}",
            "Connection: close",
        )
        return f"{CRLF.join(head)}{CRLF}{CRLF}{words}\n".encode()
