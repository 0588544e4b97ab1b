"""Workers of other processes, which tests may kill. As a program: KIND URL WHAT ...

nap WORD: boxes that are idle, that run a command, that have a session, all with a sleep of this word; then says ready.
fates COUNT SEED THREADS: boxes of random fate; says a line for each, and in the end what became of all.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

from sandbox_worker.sandbox.base import Backend, BoxSpec
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.choose import Wanted, docker_backend
from sandbox_worker.sandbox.preflight import find_host
from tests.sandbox_worker.conformance import fates

ROOT = Path(__file__).parents[3]


class Worker:
    """Starts them for one kind of boxes, and kills what is left of them."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self._url = url
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """When it has said its first line."""
        command = [sys.executable, "-m", "tests.sandbox_worker.conformance.worker", self.kind, self._url, *words]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self._started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def open_unproved(kind: str, url: str) -> Backend:
    if kind == "docker":
        return docker_backend(Wanted(kind="docker", docker_url=url))
    return BubblewrapBackend(find_host(allow_weaker=False))


def nap(backend: Backend, word: str) -> None:
    command = f"setsid -f sleep {word}; trap '' TERM HUP; sleep {word}"
    idle, busy, talking = (backend.start(BoxSpec(label="9.9.1")) for _ in range(3))
    threading.Thread(target=lambda: busy.run(["bash", "-c", command], timeout=600), daemon=True).start()
    talking.open_session().run(f"setsid -f sleep {word}; sleep {word} &", timeout=60)
    idle.write("file", b"x")
    time.sleep(0.5)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    time.sleep(600)


def main(kind: str, url: str, what: str, *words: str) -> None:
    backend = open_unproved(kind, url)
    if what == "nap":
        nap(backend, *words)
    else:
        fates.lead(backend, *(int(word) for word in words))
        backend.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
