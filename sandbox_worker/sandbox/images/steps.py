"""The worker's side of one RUN: the process that executes it, watched, and what its answer means."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

import sandbox_worker
from sandbox_worker.sandbox.base import End
from sandbox_worker.sandbox.images.errors import (
    BuildDiskFullError,
    BuildError,
    BuildFailedError,
    BuildOutOfMemoryError,
    BuildTimedOutError,
    ImageStoreError,
)
from sandbox_worker.sandbox.images.run_step import StepAnswer, StepRequest

_MODULE = "sandbox_worker.sandbox.images.run_step"
_ROOT = Path(sandbox_worker.__file__).parents[1]
_GRACE_SECONDS = 60.0
"""For its start, and for packing what was left."""
_LOOK_SECONDS = 0.05
_OTHER_LIMITS = {End.PID_LIMIT: "wanted more processes than a box has", End.OUTPUT_LIMIT: "printed without an end"}


def run_step(request: StepRequest, where: str, check: Callable[[], None]) -> str:
    """What the command said; its layer stands at the target. Raises BuildError, ImageStoreError, or as check does."""
    answer = _answer(request, check)
    if answer.problem:
        raise ImageStoreError(f"{where} could not be executed: {answer.problem}")
    log = answer.log
    if answer.end is End.TIMED_OUT:
        raise BuildTimedOutError(where, f"did not end within {request.seconds:.0f} s", log)
    if answer.end is End.OUT_OF_MEMORY:
        raise BuildOutOfMemoryError(where, f"took more than {request.limits.memory_bytes} bytes of memory", log)
    if answer.end is End.DISK_FULL:
        raise BuildDiskFullError(where, f"no space was left (a box has {request.limits.disk_bytes} bytes)", log)
    if answer.too_large:
        raise BuildDiskFullError(where, f"{answer.too_large} (a box has {request.limits.disk_bytes} bytes)", log)
    if answer.end in _OTHER_LIMITS:
        raise BuildError(where, _OTHER_LIMITS[answer.end], log)
    if answer.end is not End.EXITED or answer.exit_code != 0:
        raise BuildFailedError(where, answer.exit_code, log)
    return log


def _answer(request: StepRequest, check: Callable[[], None]) -> StepAnswer:
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as asked:
        asked.write(msgspec.json.encode(request))
        asked.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=asked,
            stdout=said,
            stderr=errors,
            cwd="/",
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])},
            start_new_session=True,
        )
        try:
            _wait(process, time.monotonic() + request.seconds + _GRACE_SECONDS, check)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)  # its box dies with it, and its mounts
                process.wait()
        said.seek(0)
        errors.seek(0)
        return _decoded(said.read(), errors.read().decode("utf-8", "replace"))


def _wait(process: "subprocess.Popen[bytes]", deadline: float, check: Callable[[], None]) -> None:
    while process.poll() is None:
        check()
        if time.monotonic() > deadline:
            raise ImageStoreError("the process that builds did not end in time, and was killed")
        time.sleep(_LOOK_SECONDS)


def _decoded(said: bytes, errors: str) -> StepAnswer:
    try:
        return msgspec.json.decode(said, type=StepAnswer)
    except msgspec.MsgspecError:
        return StepAnswer(problem=errors.strip()[-1000:] or "it ended without an answer")
