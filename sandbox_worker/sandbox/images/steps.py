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
from sandbox_worker.sandbox.images.errors import BuildError, ImageStoreError
from sandbox_worker.sandbox.images.outcome import require_success
from sandbox_worker.sandbox.images.run_step import StepAnswer, StepRequest

_MODULE = "sandbox_worker.sandbox.images.run_step"
_ROOT = Path(sandbox_worker.__file__).parents[1]
_GRACE_SECONDS = 60.0
"""For its start, and for packing what was left."""
_LOOK_SECONDS = 0.05


def run_step(request: StepRequest, where: str, check: Callable[[], None]) -> str:
    """What the command said; its layer stands at the target. Raises BuildError, ImageStoreError, or as check does."""
    answer = _answer(request, check)
    if answer.problem:
        raise ImageStoreError(f"{where} could not be executed: {answer.problem}")
    if answer.refused:
        raise BuildError(where, f"cannot be started: {answer.refused}")
    require_success(
        where,
        answer.end,
        answer.exit_code,
        answer.log,
        limits=request.limits,
        seconds=request.seconds,
        too_large=answer.too_large,
    )
    return answer.log


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
