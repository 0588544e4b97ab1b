"""A real policy server process over a folder store."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx


class Server:
    def __init__(self, process: subprocess.Popen[bytes], port: int, store: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.store = store
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def load(self, name: str, prefix: str, **more: str) -> httpx.Response:
        return self.client.post("/v1/policies", json={"name": name, "prefix": prefix, **more})

    def complete(self, model: str, prompt: object, **more: object) -> dict[str, Any]:
        """The answer's body, with ids and log-probabilities."""
        body = {"model": model, "prompt": prompt, "logprobs": 0, "return_token_ids": True, **more}
        answer = self.client.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def refuse(self, path: str, body: dict[str, object]) -> tuple[int, str | None, str | None]:
        """Status, field and code of an error."""
        answer = self.client.post(path, json=body)
        error = answer.json()["error"]
        assert error["message"]
        return answer.status_code, error["param"], error["code"]

    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("/metrics").json()
        return found


@contextmanager
def running_server(store: Path, *options: str) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "learner.serve", "--port", str(port), "--store", str(store)]
    process = subprocess.Popen([*command, "--cache", str(store / "cache"), "--threads", "1", *options])
    server = Server(process, port, store)
    try:
        _wait(server)
        yield server
    finally:
        server.client.close()
        process.terminate()
        process.wait(10)


def _wait(server: Server) -> None:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up and server.process.poll() is None:
        try:
            server.client.get("/health").raise_for_status()
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the policy server did not start")
