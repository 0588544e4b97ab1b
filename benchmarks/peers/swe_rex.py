"""SWE-ReX: local (no isolation) and Docker, with its server preinstalled in the image, which its manual advises."""

import asyncio
import os
import shlex
import sys
from typing import Any

from swerex.deployment.docker import DockerDeployment
from swerex.deployment.local import LocalDeployment
from swerex.exceptions import CommandTimeoutError
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest

from benchmarks.boxes.contract import CPUS, MEMORY_BYTES, PIDS, Arm, Box, Done
from benchmarks.boxes.serving import serve

START_SECONDS = 60.0
DOCKER_ARGS = [
    *("--cpus", str(CPUS), "--memory", str(MEMORY_BYTES), "--pids-limit", str(PIDS)),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--log-driver", "none"),
    *("--label", f"assay-benchmark={os.environ['ASSAY_BENCHMARK_ARM']}"),
]
"""No --network none: its server is reached by a port."""


class RexBox(Box):
    """With an event loop of its own: its waiting for a server blocks the loop, which must not be another box's."""

    def __init__(self, deployment: Any) -> None:
        self._deployment = deployment
        self._loop = asyncio.new_event_loop()
        self._await(deployment.start())

    def run(self, script: str, *, seconds: float) -> Done:
        return self._execute(["bash", "-c", script], seconds)

    def run_true(self) -> Done:
        return self._execute(["true"], 30)

    def prepare_limit(self) -> None:
        self.open_session()

    def run_limited(self, script: str, *, seconds: float) -> Done:
        """In a session, as agents do: there the limit returns, where that of a single command waits for the pipe."""
        try:
            return self._in_session(f"bash -c {shlex.quote(script)}", seconds)
        except CommandTimeoutError:
            return Done(124, 0, timed_out=True)

    def open_session(self) -> None:
        self._await(self._deployment.runtime.create_session(CreateBashSessionRequest(startup_timeout=10)))

    def run_true_in_session(self) -> Done:
        return self._in_session("true", 30)

    def stop(self) -> None:
        self._await(self._deployment.stop())
        self._loop.close()

    def _execute(self, command: list[str], seconds: float) -> Done:
        done = self._await(self._deployment.runtime.execute(Command(command=command, timeout=seconds)))
        return Done(done.exit_code, len(done.stdout) + len(done.stderr))

    def _in_session(self, command: str, seconds: float) -> Done:
        action = BashAction(command=command, timeout=seconds, check="silent")
        done = self._await(self._deployment.runtime.run_in_session(action))
        return Done(-1 if done.exit_code is None else done.exit_code, len(done.output))

    def _await(self, call: Any) -> Any:
        return self._loop.run_until_complete(call)


class Local(Arm):
    def start(self) -> Box:
        return RexBox(LocalDeployment())

    def close(self) -> None:
        return


class Docker(Arm):
    def start(self) -> Box:
        image = os.environ["ASSAY_BENCHMARK_IMAGE"]
        return RexBox(
            DockerDeployment(image=image, pull="never", docker_args=DOCKER_ARGS, startup_timeout=START_SECONDS)
        )

    def close(self) -> None:
        return


if __name__ == "__main__":
    serve({"local": Local, "docker": Docker}[sys.argv[1]])
