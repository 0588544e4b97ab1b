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
_MOST_FILES = 200_000
"""As many as a build on bubblewrap can make."""
_EACH = b'"Path":'
_PIECE = 1 << 18
_ENDING_SECONDS = 60.0
"""What the box gets to end a command whose time is up."""


def spec_of(building: Building, step: Run, env: tuple[tuple[str, str], ...]) -> BoxSpec:
    limits = replace(building.limits, wall_seconds=building.seconds + _ENDING_SECONDS)
    return BoxSpec(limits, workdir="/", env=env, label=f"build.{step.instruction.line}")


def execute(api: APIClient, container: str, box: SupervisedBox, building: Building, step: Run) -> tuple[str, int]:
    """What the command said, and how many bytes it left.

    It is weighed each second, and ended where it is heavier than a box's disk: until then it can write as much as the
    host's disk takes in a second and in the weighing, in files of at most that quota and 1 MiB each. Not weighed are
    three files of /etc that every container has of its own.
    Raises BuildError, SandboxError, docker's errors, or as check does."""
    place, limits = where(step.instruction), building.limits
    scale = _Scale(api, container, limits.disk_bytes)
    try:
        done = _watched(scale, box, building, step)
    except CommandRefusedError as error:
        raise BuildError(place, f"cannot be started: {error}") from error
    scale.weigh()
    log = done.output.decode("utf-8", "replace")
    require_success(
        place, done.end, done.exit_code, log, limits=limits, seconds=building.seconds, too_large=scale.too_large
    )
    return log, scale.bytes


class _Scale:
    """What was written to a container's root: how heavy it is, and whether it ever was too heavy."""

    def __init__(self, api: APIClient, container: str, most_bytes: int) -> None:
        self.bytes = 0
        self.too_large = ""
        self._api = api
        self._container = container
        self._most_bytes = most_bytes

    def weigh(self) -> None:
        """Raises docker's errors."""
        if self.too_large:
            return
        (found,) = self._api.containers(all=True, size=True, filters={"id": self._container})
        said: dict[str, Any] = found
        self.bytes = int(said.get("SizeRw", 0))
        if self.bytes > self._most_bytes:
            self.too_large = f"the files take {self.bytes} bytes"
        elif self._has_too_many():
            self.too_large = f"there are more than {_MOST_FILES} files"

    def _has_too_many(self) -> bool:
        """Counted as they come: the list may be long."""
        url = f"{self._api.base_url}/v{self._api.api_version}/containers/{self._container}/changes"
        count, rest = 0, b""
        with self._api.get(url, stream=True, timeout=self._api.timeout) as answer:
            answer.raise_for_status()
            for piece in answer.iter_content(_PIECE):
                count += (rest + piece).count(_EACH)
                rest = piece[1 - len(_EACH) :]
                if count > _MOST_FILES:
                    return True
        return False


def _watched(scale: _Scale, box: SupervisedBox, building: Building, step: Run) -> Completed:
    with ThreadPoolExecutor(1, thread_name_prefix="build") as pool:
        running = pool.submit(box.run, list(step.command), timeout=building.seconds, cwd=step.workdir)
        try:
            return _await(running, scale, box, building)
        except BaseException:
            box.kill()  # and so the thread is let go
            raise


def _await(running: "Future[Completed]", scale: _Scale, box: SupervisedBox, building: Building) -> Completed:
    weigh_at = time.monotonic() + _WEIGH_SECONDS
    while not wait([running], _LOOK_SECONDS).done:
        building.check()
        if time.monotonic() < weigh_at:
            continue
        box.renew()
        scale.weigh()
        if scale.too_large:
            box.cancel()
        weigh_at = time.monotonic() + _WEIGH_SECONDS
    return running.result()
