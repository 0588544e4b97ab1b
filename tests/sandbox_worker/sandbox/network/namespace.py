"""A real network namespace with nothing but a loopback, its listener handed out, and clients run inside it."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_INSIDE = """
import fcntl, socket, struct, sys
up = struct.pack("16sh", b"lo", 0x1 | 0x40)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as card:
    fcntl.ioctl(card, 0x8914, up.ljust(40, b"\\0"))
with socket.socket(fileno=int(sys.argv[1])) as out, socket.create_server(("127.0.0.1", 3128)) as listener:
    socket.send_fds(out, [b"listener"], [listener.fileno()])
exec(sys.stdin.read())
"""


@dataclass(frozen=True)
class Namespace:
    listener: socket.socket
    _process: "subprocess.Popen[str]"

    def run(self, script: str) -> str:
        """What a Python script prints inside; the namespace ends after it."""
        printed, _ = self._process.communicate(script, timeout=60)
        return printed


@contextlib.contextmanager
def namespace() -> Iterator[Namespace]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", _INSIDE, str(theirs.fileno())]
        with subprocess.Popen(
            command,
            text=True,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            theirs.close()
            _, (descriptor,), _, _ = socket.recv_fds(ours, 20, 1)
            with socket.socket(fileno=descriptor) as listener:
                yield Namespace(listener, process)
            process.kill()
