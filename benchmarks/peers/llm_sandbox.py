"""llm-sandbox: Docker, with and without its pool, with no environment to set up and a stop that does not wait.

Its pool hands out a container that was used before, and locks itself while it makes one.
"""

import os
import shlex
import sys
import time
from typing import Any

import docker
from llm_sandbox.docker import SandboxDockerSession
from llm_sandbox.exceptions import SandboxTimeoutError
from llm_sandbox.pool import PoolConfig, PooledSandboxSession, create_pool_manager

from benchmarks.boxes.contract import CPUS, MEMORY_BYTES, PIDS, Arm, Box, Done
from benchmarks.boxes.serving import serve

POOL = 8
MOST = 64
SETTLE_SECONDS = 120.0
RUNTIME: dict[str, Any] = {
    "command": ["sleep", "infinity"],
    "stop_signal": "SIGKILL",
    "nano_cpus": int(CPUS * 1e9),
    "mem_limit": MEMORY_BYTES,
    "pids_limit": PIDS,
    "network_mode": "none",
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "labels": {"assay-benchmark": os.environ["ASSAY_BENCHMARK_ARM"]},
    "log_config": {"type": "none"},
}
"""Its files travel by archives, which a read-only container refuses."""


class LlmBox(Box):
    def __init__(self, session: Any) -> None:
        self._session = session
        session.open()
        self._commands = getattr(session, "backend_session", session)

    def run(self, script: str, *, seconds: float) -> Done:
        """As a stream, for without one it puts long output together piece by piece and never ends."""
        return self._execute(f"bash -c {shlex.quote(script)}", on_stdout=lambda part: None)

    def run_true(self) -> Done:
        return self._execute("true")

    def run_limited(self, script: str, *, seconds: float) -> Done:
        """Only code has a limit with it: here code that runs the script."""
        code = f"import os\nos.execvp('bash', ['bash', '-c', {script!r}])\n"
        try:
            done = self._session.run(code, timeout=seconds)
        except SandboxTimeoutError:
            return Done(124, 0, timed_out=True)
        return Done(done.exit_code, len(done.stdout) + len(done.stderr))

    def stop(self) -> None:
        self._session.close()

    def _execute(self, command: str, **options: Any) -> Done:
        done = self._commands.execute_command(command, **options)
        return Done(done.exit_code, len(done.stdout) + len(done.stderr))


class Cold(Arm):
    def __init__(self) -> None:
        self._client = client()

    def start(self) -> Box:
        image = os.environ["ASSAY_BENCHMARK_IMAGE"]
        return LlmBox(
            SandboxDockerSession(
                client=self._client, image=image, runtime_configs=dict(RUNTIME), skip_environment_setup=True
            )
        )

    def close(self) -> None:
        self._client.close()


class Pooled(Arm):
    def __init__(self) -> None:
        self._pool = create_pool_manager(
            client=client(),
            config=PoolConfig(min_pool_size=POOL, max_pool_size=MOST, acquisition_timeout=60),
            lang="python",
            image=os.environ["ASSAY_BENCHMARK_IMAGE"],
            runtime_configs=dict(RUNTIME),
            skip_environment_setup=True,
        )

    def start(self) -> Box:
        return LlmBox(PooledSandboxSession(pool_manager=self._pool))

    def settle(self, at_once: int) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while (
            self._pool.get_stats()["state_counts"].get("idle", 0) < min(at_once, POOL) and time.monotonic() < deadline
        ):
            time.sleep(0.1)

    def close(self) -> None:
        self._pool.close()


def client() -> docker.DockerClient:
    return docker.DockerClient(base_url=os.environ["DOCKER_HOST"], timeout=120, max_pool_size=256)


if __name__ == "__main__":
    serve({"cold": Cold, "pool": Pooled}[sys.argv[1]])
