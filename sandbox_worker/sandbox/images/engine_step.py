"""Executes one RUN in a container whose root can be written to, and weighs it: the Engine bounds no such root."""

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from docker import APIClient

from sandbox_worker.sandbox.base import BoxSpec, CommandRefusedError, Completed
from sandbox_worker.sandbox.images.building import Building, where
from sandbox_worker.sandbox.images.errors import BuildError
from sandbox_worker.sandbox.images.outcome import require_success
from sandbox_worker.sandbox.supervised import SupervisedBox
from wire.dockerfile import Run

_LOOK_SECONDS = 0.05
_WEIGH_SECONDS = 1.0
_ENDING_SECONDS = 60.0
"""What the box gets to end a command whose time is up."""


def spec_of(building: Building, step: Run, env: tuple[tuple[str, str], ...]) -> BoxSpec:
    limits = replace(building.limits, wall_seconds=building.seconds + _ENDING_SECONDS)
    return BoxSpec(limits, workdir="/", env=env, label=f"build.{step.instruction.line}")


def execute(api: APIClient, container: str, box: SupervisedBox, building: Building, step: Run) -> tuple[str, int]:
    """What the command said, and how many bytes it left.

    It is weighed each second, and ended where it is heavier than a box's disk: until then it can write as much as the
    host's disk takes in a second and in the weighing, in files of at most that quota and 1 MiB each.
    Raises BuildError, SandboxError, docker's errors, or as check does."""
    place, limits = where(step.instruction), building.limits
    try:
        done, heaviest = _watched(api, container, box, building, step)
    except CommandRefusedError as error:
        raise BuildError(place, f"cannot be started: {error}") from error
    size = max(heaviest, weight_of(api, container))
    log = done.output.decode("utf-8", "replace")
    require_success(
        place,
        done.end,
        done.exit_code,
        log,
        limits=limits,
        seconds=building.seconds,
        too_large=f"the files take {size} bytes" if size > limits.disk_bytes else "",
    )
    return log, size


def _watched(
    api: APIClient, container: str, box: SupervisedBox, building: Building, step: Run
) -> tuple[Completed, int]:
    """With the weight for which it was ended, or 0."""
    with ThreadPoolExecutor(1, thread_name_prefix="build") as pool:
        running = pool.submit(box.run, list(step.command), timeout=building.seconds, cwd=step.workdir)
        try:
            return _await(running, api, container, box, building)
        except BaseException:
            box.kill()  # and so the thread is let go
            raise


def _await(
    running: "Future[Completed]", api: APIClient, container: str, box: SupervisedBox, building: Building
) -> tuple[Completed, int]:
    weigh_at = time.monotonic() + _WEIGH_SECONDS
    heaviest = 0
    while not wait([running], _LOOK_SECONDS).done:
        building.check()
        if time.monotonic() < weigh_at or heaviest:
            continue
        box.renew()
        if (size := weight_of(api, container)) > building.limits.disk_bytes:
            heaviest = size
            box.cancel()
        weigh_at = time.monotonic() + _WEIGH_SECONDS
    return running.result(), heaviest


def weight_of(api: APIClient, container: str) -> int:
    """Bytes of the files that were written to a container's root. Raises docker's errors."""
    (found,) = api.containers(all=True, size=True, filters={"id": container})
    said: dict[str, Any] = found
    return int(said.get("SizeRw", 0))
