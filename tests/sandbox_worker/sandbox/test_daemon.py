"""An Engine is asked with patience for a few seconds, and whatever else answers is none."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox_worker.sandbox.choose import Wanted
from sandbox_worker.sandbox.daemon import EngineAbsentError, ask_engine
from sandbox_worker.sandbox.examine import engine_findings
from sandbox_worker.sandbox.findings import State
from tests.engine import Engine


@contextmanager
def answering(path: Path, answer: bytes | None) -> Iterator[str]:
    """One who takes a connection and says this; None: nothing at all, for as long as it is waited for."""
    done = threading.Event()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            taken, _ = server.accept()
            with taken:
                if answer is None:
                    done.wait(30)
                else:
                    taken.recv(4096)
                    taken.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            done.set()
            thread.join()


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.docker
def test_a_real_engine_tells_what_it_is(engine: Engine) -> None:
    facts = ask_engine(engine.url)
    assert facts.version[0].isdigit()
    assert facts.cgroups.startswith(("v1 by ", "v2 by "))
    assert facts.storage
    assert facts.root == engine.folder / "data"
    assert "runc" in facts.runtimes


@pytest.mark.docker
def test_its_rows_are_in_the_report(engine: Engine) -> None:
    docker, gvisor, disk = engine_findings(Wanted(docker_url=engine.url))
    assert (docker.name, docker.state) == ("Docker Engine", State.OK)
    assert engine.url in docker.found
    assert (gvisor.name, gvisor.state) == ("gVisor", State.NOT_NEEDED)
    assert "runc" in gvisor.found
    assert str(engine.folder / "data") in disk.found


def test_gvisor_is_found_among_the_runtimes(tmp_path: Path) -> None:
    body = (
        b'{"ServerVersion": "29.1", "CgroupDriver": "systemd", "CgroupVersion": "2", "Driver": "overlay2",'
        b' "DockerRootDir": "/nowhere/docker", "Runtimes": {"runsc": {}, "runc": {}}}'
    )
    with answering(tmp_path / "socket", http(body)) as address:
        docker, gvisor, _ = engine_findings(Wanted(docker_url=address))
    assert docker.found == f"29.1 at {address}; cgroups v2 by systemd; storage overlay2"
    assert (gvisor.state, gvisor.found) == (State.OK, "runsc is among the Engine's runtimes: runc, runsc")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "timed out"),
        (b"", "closed connection without response"),
        (b"220 mail.example ESMTP\r\n", "does not speak as a Docker Engine does"),
        (http(b"{}"), "KeyError('ServerVersion')"),
        (http(b"[]"), "no object"),
        (http(b"not json"), "does not speak"),
        (http(b"{}", "500 Internal Server Error"), "status 500"),
    ],
)
def test_who_does_not_speak_like_one_is_none(tmp_path: Path, answer: bytes | None, words: str) -> None:
    with answering(tmp_path / "socket", answer) as address:
        docker, gvisor = engine_findings(Wanted(docker_url=address))
    assert (docker.state, gvisor.state) == (State.NOT_NEEDED, State.NOT_NEEDED)
    assert words in docker.found
    assert address in docker.found


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("unix:///nowhere/docker.sock", "No such file or directory"),
        ("tcp://127.0.0.1:9", "Connection refused"),
        ("ssh://ana@elsewhere", "no address of an Engine on this host"),
        ("nonsense", "no address of an Engine on this host"),
        ("tcp://127.0.0.1:99999", "does not speak"),
    ],
)
def test_an_address_without_one_is_named(address: str, words: str) -> None:
    with pytest.raises(EngineAbsentError, match=words) as raised:
        ask_engine(address)
    assert address in str(raised.value)


def test_keys_that_cannot_be_read_are_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    with pytest.raises(EngineAbsentError, match="No such file"):
        ask_engine("tcp://127.0.0.1:9")


def test_an_engine_or_a_runtime_that_is_wanted_and_absent_is_missing(tmp_path: Path) -> None:
    docker, _ = engine_findings(Wanted(kind="docker", docker_url="unix:///nowhere/docker.sock"))
    assert docker.state is State.MISSING
    assert "DOCKER_HOST" in docker.mend
    body = (
        b'{"ServerVersion": "29.1", "CgroupDriver": "systemd", "Driver": "overlay2", "DockerRootDir": "/nowhere",'
        b' "Runtimes": {"runc": {}}}'
    )
    with answering(tmp_path / "socket", http(body)) as address:
        _, gvisor, _ = engine_findings(Wanted(docker_url=address, docker_runtime="runsc"))
    assert (gvisor.state, "Install gVisor" in gvisor.mend) == (State.MISSING, True)
