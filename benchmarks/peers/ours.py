"""Our own boxes, as a rollout gets them: opened by the same door, cold or from the warm pool."""

import argparse
import os
from typing import Literal

from benchmarks.boxes.contract import CPUS, DISK_BYTES, MEMORY_BYTES, PIDS, Arm, Box, Done
from benchmarks.boxes.serving import serve
from sandbox_worker.sandbox import base
from sandbox_worker.sandbox.choose import Wanted, open_backend

SPEC = base.BoxSpec(base.Limits(cpus=CPUS, memory_bytes=MEMORY_BYTES, pids=PIDS, disk_bytes=DISK_BYTES))


class OurBox(Box):
    def __init__(self, box: base.Box) -> None:
        self._box = box
        self._session: base.Session | None = None

    def run(self, script: str, *, seconds: float) -> Done:
        return self._run(["bash", "-c", script], seconds)

    def run_true(self) -> Done:
        return self._run(["true"], 30)

    def open_session(self) -> None:
        self._session = self._box.open_session()

    def run_true_in_session(self) -> Done:
        assert self._session is not None
        return told(self._session.run("true", timeout=30).completed)

    def stop(self) -> None:
        self._box.stop()

    def _run(self, command: list[str], seconds: float) -> Done:
        return told(self._box.run(command, timeout=seconds))


def told(done: base.Completed) -> Done:
    return Done(done.exit_code, done.output_bytes, timed_out=done.end is base.End.TIMED_OUT)


class Cold(Arm):
    def __init__(self, backend: base.Backend) -> None:
        self._backend = backend

    def start(self) -> Box:
        return OurBox(self._backend.start(SPEC))

    def reap(self) -> None:
        self._backend.reap()

    def close(self) -> None:
        self._backend.close()


def make() -> Arm:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["bubblewrap", "docker"])
    return Cold(open_backend(wanted(parser.parse_args().kind)))


def wanted(kind: Literal["bubblewrap", "docker"]) -> Wanted:
    if kind == "bubblewrap":
        return Wanted(kind)
    return Wanted(kind, docker_url=os.environ["DOCKER_HOST"], docker_image=os.environ["ASSAY_BENCHMARK_IMAGE"])


if __name__ == "__main__":
    serve(make)
