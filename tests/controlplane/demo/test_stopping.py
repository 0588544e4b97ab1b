"""The demo ended from outside while it works."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from django.conf import settings

from tests.controlplane.test_supervisor import is_alive, until
from tests.controlplane.test_up import free_port

pytestmark = pytest.mark.process

HOLD_A_CONVERSION = """
import time, django
django.setup()
from controlplane.demo.supplies import Conversion
with Conversion():
    print("begun", flush=True)
    time.sleep(600)
"""


def environment_of(data: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "ASSAY_SECRET_KEY"}
    return {
        **kept,
        "ASSAY_DATA": str(data),
        "ASSAY_WEB_BIND": f"127.0.0.1:{free_port()}",
        "ASSAY_POLICY_URL": f"http://127.0.0.1:{free_port()}",
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
    }


def conversions(pid: int) -> list[psutil.Process]:
    return [each for each in psutil.Process(pid).children(recursive=True) if "learner.model" in command_of(each)]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:  # a step of the start that has just ended
        return []


@pytest.fixture
def holder(data_folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that waits with a conversion under way."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_A_CONVERSION],
        cwd=settings.BASE_DIR,
        env=environment_of(data_folder),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


def test_a_conversion_ends_with_a_killed_demo(holder: subprocess.Popen[str]) -> None:
    (conversion,) = conversions(holder.pid)
    holder.kill()
    until(lambda: not is_alive(conversion.pid))


def test_a_conversion_ends_with_an_interrupted_demo_and_leaves_nothing(
    holder: subprocess.Popen[str], data_folder: Path
) -> None:
    (conversion,) = conversions(holder.pid)
    models = data_folder / "models"
    until(lambda: list(models.glob(".*.tmp")), seconds=60)
    holder.send_signal(signal.SIGINT)
    holder.wait(timeout=30)
    assert not is_alive(conversion.pid)
    assert list(models.glob(".*.tmp")) == []


@pytest.mark.parametrize(("extra", "code"), [([], 0), (["--exit"], 1)])
def test_a_stopped_demo_says_one_sentence_and_leaves_no_process(data_folder: Path, extra: list[str], code: int) -> None:
    said = data_folder / "demo.out"
    with said.open("w") as output:
        demo = subprocess.Popen(
            [sys.executable, "manage.py", "demo", *extra],
            cwd=settings.BASE_DIR,
            env=environment_of(data_folder),
            stdout=output,
            stderr=output,
        )
    try:
        until(lambda: demo.poll() is not None or conversions(demo.pid), seconds=120)
        assert demo.poll() is None, said.read_text()
        tree = psutil.Process(demo.pid).children(recursive=True)
        demo.terminate()
        assert demo.wait(timeout=30) == code
    finally:
        demo.kill()
        demo.wait()
    assert "Traceback" not in said.read_text()
    assert said.read_text().splitlines()[-1] == "Stopped. The next `make demo` goes on from here."
    assert [each for each in tree if is_alive(each.pid)] == []
