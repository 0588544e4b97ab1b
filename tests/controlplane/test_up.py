"""manage.py up, as a user runs it."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import redis
from django.conf import settings

from controlplane.embedded.folders import valkey_socket
from controlplane.stack import SERVICES, Choice, StackError
from tests.controlplane.test_supervisor import is_alive, until
from tests.servers import make_data_folder, remove_data_folder

pytestmark = pytest.mark.process


@dataclass(frozen=True)
class Up:
    process: subprocess.Popen[str]
    data: Path
    port: int


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_up(data: Path, port: int, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "ASSAY_DATA": str(data),
        "ASSAY_WEB_BIND": f"127.0.0.1:{port}",
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
    }
    command = [sys.executable, "manage.py", "up", *arguments]
    with (data / "up.out").open("w") as output:
        return subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=environment, stderr=output, stdout=output, text=True
        )


def answer(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
            return str(response.read().decode())
    except OSError:
        return ""


def messages_sent(client: redis.Redis) -> int:
    return int(dict(client.info("commandstats")).get("cmdstat_lpush", {"calls": 0})["calls"])


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    data, port = make_data_folder(), free_port()
    process = start_up(data, port, "--only", "web,control,beat")
    yield Up(process, data, port)
    if process.poll() is None:
        process.kill()
        process.wait()
    remove_data_folder(data)


def test_the_pages_answer_once_it_says_so(up: Up) -> None:
    said = f"http://127.0.0.1:{up.port}/"
    until(lambda: said in (up.data / "up.out").read_text() or up.process.poll() is not None, seconds=120)
    assert up.process.poll() is None, (up.data / "up.out").read_text()
    assert '"ready"' in answer(up.port, "/readyz")


def test_each_process_has_its_log_file_and_a_new_password_is_in_none(up: Up) -> None:
    logs = {path.name: path.read_text() for path in (up.data / "logs").iterdir()}
    assert {"database.log", "broker.log", "migrate.log", "web.log", "control.log", "beat.log"} <= set(logs)
    assert "password" in (up.data / "up.out").read_text()
    assert not any("with the password" in text for text in logs.values())
    assert (up.data / "logs").stat().st_mode & 0o077 == 0


def test_beat_asks_for_a_pass_again_and_again_and_control_takes_each(up: Up) -> None:
    client = redis.Redis(unix_socket_path=str(valkey_socket(up.data)))
    until(lambda: messages_sent(client) >= 3, seconds=60)
    until(lambda: client.llen("control") == 0, seconds=60)
    client.close()


def test_a_second_one_is_refused_with_the_pid_of_the_first(up: Up) -> None:
    second = subprocess.run(
        [sys.executable, "manage.py", "up", "--only", "control"],
        cwd=settings.BASE_DIR,
        env={**os.environ, "ASSAY_DATA": str(up.data), "DJANGO_SETTINGS_MODULE": "controlplane.settings"},
        capture_output=True,
        text=True,
    )
    assert second.returncode == 1
    assert f"Process {up.process.pid} already runs Assay" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_killed_database_comes_back_and_the_pages_with_it(up: Up) -> None:
    server = next(each for each in psutil.Process(up.process.pid).children() if each.name() == "postgres")
    server.kill()
    until(lambda: "database started again (restart 1)" in (up.data / "up.out").read_text())
    until(lambda: '"ready"' in answer(up.port, "/readyz"), seconds=60)


def test_sigterm_ends_all_within_ten_seconds_and_leaves_no_process(up: Up) -> None:
    tree = psutil.Process(up.process.pid).children(recursive=True)
    began = time.monotonic()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(timeout=60) == 0
    assert time.monotonic() - began < 10
    assert [each for each in tree if is_alive(each.pid)] == []


def test_a_taken_port_is_named_before_anything_starts(data_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        process = start_up(data_folder, port, "--only", "web")
        assert process.wait(timeout=60) == 1
    said = (data_folder / "up.out").read_text()
    assert f"Port {port} on 127.0.0.1 cannot be had for the web process" in said
    assert f"ASSAY_WEB_BIND=127.0.0.1:{port + 1}" in said
    assert not (data_folder / "postgres").exists()


def test_without_leaves_out_and_only_names_all() -> None:
    assert Choice.of().services == frozenset(SERVICES)
    assert Choice.of(without=["learner", "policy"]).services == frozenset({"web", "control", "beat", "sandbox"})
    assert Choice.of(only=["web"]).services == frozenset({"web"})


@pytest.mark.parametrize(("only", "without"), [(["wbe"], []), ([], ["database"]), (["web"], ["web"])])
def test_a_choice_that_makes_no_sense_is_refused(only: list[str], without: list[str]) -> None:
    with pytest.raises(StackError, match="web, control, beat, sandbox, learner, policy"):
        Choice.of(only, without)
