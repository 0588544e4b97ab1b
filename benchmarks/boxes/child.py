"""One arm of the benchmark: a process of its own, asked for one batch at a time, killed and replaced where it hangs."""

import contextlib
import json
import os
import re
import select
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.boxes.scenarios import Batch
from wire.orphan import child_setup

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 300.0
"""Our own may have its supervisor to build first."""
STOP_SECONDS = 60.0


class ArmFailedError(Exception):
    """The arm's process cannot start, hangs, has died, or says that the batch as a whole failed."""


@dataclass(frozen=True)
class ArmSpec:
    name: str
    module: str
    """Of its driver."""
    options: tuple[str, ...] = ()
    peer: str = ""
    """Whose interpreter it runs under; empty: this one."""
    on_engine: bool = False
    """Its boxes are containers."""
    pace: int = 1
    """How many times as much is asked of it a round: a fast arm's batch must not be over before it is at speed."""
    crowd: int = 64
    """How many boxes it is asked to keep alive at once: fewer where each is large, none where they wait already."""
    burst: int = 200

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


class Child:
    """folder: its own, for temporary files and its log."""

    def __init__(self, spec: ArmSpec, python: Path, folder: Path, env: dict[str, str]) -> None:
        self.spec = spec
        self.folder = folder
        self._command = [str(python), "-m", spec.module, *spec.options]
        self._env = {**os.environ, "TMPDIR": str(self.temporary), "ASSAY_BENCHMARK_ARM": spec.slug, **env}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Where it does not run. Raises ArmFailedError."""
        if self._process is not None:
            return
        self.temporary.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=child_setup(),
            )
        self._exchange(b"", START_SECONDS)

    def ask(self, scenario: str, *, seconds: float, **parameters: Any) -> Batch:
        """Raises ArmFailedError."""
        self.start()
        line = json.dumps({"scenario": scenario, **parameters}) + "\n"
        answer = self._exchange(line.encode(), seconds)
        batch = Batch(**answer)
        if batch.stuck:
            self.kill()
        return batch

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._reaped(self._process)

    def close(self) -> None:
        """In order: it stops its boxes."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reaped(self._process)

    def log_tail(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""

    def _exchange(self, line: bytes, seconds: float) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except BrokenPipeError as error:
            self.kill()
            raise ArmFailedError(f"its process has died: {self.log_tail()}") from error
        if not select.select([process.stdout], [], [], seconds)[0]:
            self.kill()
            raise ArmFailedError(f"its process gave no answer in {seconds:.0f} s")
        said = process.stdout.readline()
        if not said:
            self.kill()
            raise ArmFailedError(f"its process has died: {self.log_tail()}")
        answer: dict[str, Any] = json.loads(said)
        if "failed" in answer:
            raise ArmFailedError(answer["failed"])
        return answer

    def _reaped(self, process: "subprocess.Popen[bytes]") -> None:
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process = None
