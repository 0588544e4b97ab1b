"""The plain Docker SDK, hardened: what a cold start of a container costs without any layer above it.

It has no time limit for a command: coreutils' timeout inside the container is what its users take.
"""

import os

import docker
from docker.models.containers import Container
from docker.types import LogConfig

from benchmarks.boxes.contract import CPUS, DISK_BYTES, MEMORY_BYTES, PIDS, Arm, Box, Done
from benchmarks.boxes.serving import serve


class SdkBox(Box):
    def __init__(self, container: Container) -> None:
        self._container = container

    def run(self, script: str, *, seconds: float) -> Done:
        return self._exec(["bash", "-c", script])

    def run_true(self) -> Done:
        return self._exec(["true"])

    def run_limited(self, script: str, *, seconds: float) -> Done:
        done = self._exec(["timeout", "-s", "KILL", str(seconds), "bash", "-c", script])
        return Done(done.exit_code, done.output_bytes, timed_out=done.exit_code == 137)

    def stop(self) -> None:
        self._container.remove(force=True, v=True)

    def _exec(self, command: list[str]) -> Done:
        done = self._container.exec_run(command)
        assert isinstance(done.output, bytes)
        return Done(-1 if done.exit_code is None else done.exit_code, len(done.output))


class Sdk(Arm):
    def __init__(self) -> None:
        self._client = docker.DockerClient(base_url=os.environ["DOCKER_HOST"], timeout=120, max_pool_size=256)

    def start(self) -> Box:
        size = f"size={DISK_BYTES}"
        container = self._client.containers.run(
            os.environ["ASSAY_BENCHMARK_IMAGE"],
            ["sleep", "infinity"],
            detach=True,
            labels={"assay-benchmark": os.environ["ASSAY_BENCHMARK_ARM"]},
            nano_cpus=int(CPUS * 1e9),
            mem_limit=MEMORY_BYTES,
            pids_limit=PIDS,
            network_mode="none",
            read_only=True,
            tmpfs={"/tmp": size, "/app": f"{size},uid=1000"},
            user="1000:1000",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            log_config=LogConfig(type="none"),
        )
        return SdkBox(container)

    def close(self) -> None:
        self._client.close()


if __name__ == "__main__":
    serve(Sdk)
