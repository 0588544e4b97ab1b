"""The one place that decides which kind of box this host gets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from sandbox_worker.sandbox.base import Backend, HostCannotIsolateError
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.preflight import find_host, prove

Kind = Literal["auto", "bubblewrap", "docker"]
DOCKER_URL = "unix:///var/run/docker.sock"
BASE_IMAGE = "assay/base"


@dataclass(frozen=True)
class Wanted:
    """Which boxes an operator asks for."""

    kind: Kind = "auto"
    """auto: bubblewrap if it can isolate here, else Docker if there is one."""
    allow_weaker: bool = False
    docker_url: str = DOCKER_URL
    docker_image: str = BASE_IMAGE
    """Of tasks that name none."""
    docker_runtime: str = ""
    """As the Engine names it: runc, runsc; empty for its default."""


def open_backend(wanted: Wanted) -> Backend:
    """A back end that was seen to isolate. Close it in the process that opened it.

    Raises HostCannotIsolateError with what every way lacks.
    """
    errors: list[HostCannotIsolateError] = []
    for make in ways(wanted):
        try:
            return proved(make())
        except HostCannotIsolateError as error:
            errors.append(error)
    raise HostCannotIsolateError(
        "; and ".join(error.missing for error in errors), " Or: ".join(error.mend for error in errors)
    ) from errors[-1]


def ways(wanted: Wanted) -> Iterator[Callable[[], Backend]]:
    """The strong before the weaker."""
    if wanted.kind != "docker":
        yield lambda: BubblewrapBackend(find_host(allow_weaker=False))
    if wanted.kind != "bubblewrap":
        yield lambda: docker_backend(wanted)
    if wanted.kind != "docker" and wanted.allow_weaker:
        yield lambda: BubblewrapBackend(find_host(allow_weaker=True))


def docker_backend(wanted: Wanted) -> Backend:
    """Raises HostCannotIsolateError, also where its client is not installed."""
    try:
        from sandbox_worker.sandbox.docker import DockerBackend  # noqa: PLC0415 (optional: bubblewrap needs no package)
    except ModuleNotFoundError as error:
        raise HostCannotIsolateError(f"there is no Python package {error.name}", "Run make install.") from error
    return DockerBackend(wanted.docker_url, image=wanted.docker_image, runtime=wanted.docker_runtime)


def proved(backend: Backend) -> Backend:
    """Closed where it does not isolate. Raises HostCannotIsolateError."""
    try:
        prove(backend)
    except BaseException:
        backend.close()
        raise
    return backend
