"""Boxes of an Engine that does not always answer, and whose containers are whose."""

import os
import signal
import threading
from dataclasses import replace

import pytest

from sandbox_worker.sandbox import containers
from sandbox_worker.sandbox.base import BoxDeadError, End
from sandbox_worker.sandbox.docker import DockerBackend, is_left
from sandbox_worker.sandbox.owner import Owner
from tests.engine import Engine
from tests.sandbox_worker.sandbox.boxes import open_box, said, shell

LIVING = Owner.this_process()
DEAD = replace(LIVING, ticks=1)
HIDDEN = replace(LIVING, namespace=1)


@pytest.mark.docker
def test_an_engine_that_falls_silent_is_our_failure_and_no_commands(
    engine: Engine, docker_boxes: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_worker.sandbox.supervised.GRACE_SECONDS", 0.5)
    monkeypatch.setattr("sandbox_worker.sandbox.docker._PING_SECONDS", 0.5)
    with open_box(docker_boxes) as box:
        thaw = threading.Timer(4, os.kill, (engine.pid, signal.SIGCONT))
        os.kill(engine.pid, signal.SIGSTOP)
        thaw.start()
        try:
            with pytest.raises(BoxDeadError) as raised:
                shell(box, "true", timeout=0.5)
        finally:
            thaw.join()
        assert (raised.value.end, box.spent) == (End.SANDBOX_DEAD, "")
        assert "Engine does not answer" in str(raised.value)
    with open_box(docker_boxes) as box:
        assert said(shell(box, "echo next")) == "next"


@pytest.mark.parametrize(
    ("owner", "state", "left"),
    [
        (DEAD, "running", True),
        (DEAD, "created", True),
        (LIVING, "running", False),
        (LIVING, "exited", False),
        (HIDDEN, "running", False),
        (HIDDEN, "exited", True),
    ],
)
def test_a_container_is_left_where_nobody_is_there_to_ask_of_it(owner: Owner, state: str, left: bool) -> None:
    assert is_left({"Labels": {containers.OWNER: owner.name}, "State": state}) is left
