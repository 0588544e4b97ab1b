"""The one place that decides which kind of box this host gets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from sandbox_worker.sandbox.base import Backend, HostCannotIsolateError, SandboxError
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend, FindRoot
from sandbox_worker.sandbox.daemon import DEFAULT as DEFAULT_ADDRESS
from sandbox_worker.sandbox.findings import BUBBLEWRAP, DOCKER, Finding, UnprovedError, not_needed, refused
from sandbox_worker.sandbox.preflight import find_host, prove

Kind = Literal["auto", "bubblewrap", "docker"]
BASE_IMAGE = "assay/base"
_TRUE = ("1", "true", "yes")


@dataclass(frozen=True)
class Wanted:
    """Which boxes an operator asks for."""

    kind: Kind = "auto"
    """auto: bubblewrap if it can isolate here, else Docker if there is one."""
    allow_weaker: bool = False
    docker_url: str = DEFAULT_ADDRESS
    docker_image: str = BASE_IMAGE
    """Of tasks that name none."""
    docker_runtime: str = ""
    """As the Engine names it: runc, runsc; empty for its default."""


class WantedError(SandboxError):
    """A variable of the environment asks for what there is not; names it."""


def wanted(environment: Mapping[str, str]) -> Wanted:
    """Raises WantedError."""
    kind = environment.get("ASSAY_SANDBOX_BACKEND") or "auto"
    if kind not in get_args(Kind):
        raise WantedError(f"ASSAY_SANDBOX_BACKEND must be one of {', '.join(get_args(Kind))}, not {kind!r}")
    return Wanted(
        kind=cast(Kind, kind),
        allow_weaker=environment.get("ASSAY_ALLOW_WEAKER_BOXES", "").lower() in _TRUE,
        docker_url=environment.get("DOCKER_HOST") or DEFAULT_ADDRESS,
        docker_image=environment.get("ASSAY_DOCKER_IMAGE") or BASE_IMAGE,
        docker_runtime=environment.get("ASSAY_DOCKER_RUNTIME", ""),
    )


@dataclass(frozen=True)
class Proved:
    """A back end that was seen to isolate. Close it in the process that opened it."""

    backend: Backend
    about: str
    """Its name in the findings."""
    findings: tuple[Finding, ...]
    """Of its boxes, and of the back ends that were asked before it and are not needed now."""


def open_proved(wanted: Wanted, find_root: FindRoot | None = None) -> Proved:
    """Raises UnprovedError with the rows of every back end."""
    lacking: dict[str, tuple[Finding, ...]] = {}
    for about, make in ways(wanted, find_root):
        try:
            found = proved(make(), about)
        except HostCannotIsolateError as error:
            lacking[about] = refused(about, error)
        else:
            others = [not_needed(row) for name, rows in lacking.items() if name != about for row in rows]
            return replace(found, findings=(*found.findings, *others))
    raise UnprovedError(tuple(row for rows in lacking.values() for row in rows))


def open_backend(wanted: Wanted, find_root: FindRoot | None = None) -> Backend:
    """For who does not ask what was found. Raises UnprovedError."""
    return open_proved(wanted, find_root).backend


def ways(wanted: Wanted, find_root: FindRoot | None) -> Iterator[tuple[str, Callable[[], Backend]]]:
    """The strong before the weaker."""
    if wanted.kind != DOCKER:
        yield BUBBLEWRAP, lambda: BubblewrapBackend(find_host(allow_weaker=False), find_root)
    if wanted.kind != BUBBLEWRAP:
        yield DOCKER, lambda: docker_backend(wanted)
    if wanted.kind != DOCKER and wanted.allow_weaker:
        yield BUBBLEWRAP, lambda: BubblewrapBackend(find_host(allow_weaker=True), find_root)


def docker_backend(wanted: Wanted) -> Backend:
    """Raises HostCannotIsolateError, also where its client is not installed."""
    try:
        from sandbox_worker.sandbox.docker import DockerBackend  # noqa: PLC0415 (optional: bubblewrap needs no package)
    except ModuleNotFoundError as error:
        raise HostCannotIsolateError(f"there is no Python package {error.name}", "Run make install.") from error
    return DockerBackend(wanted.docker_url, image=wanted.docker_image, runtime=wanted.docker_runtime)


def proved(backend: Backend, about: str) -> Proved:
    """Closed where it does not isolate. Raises HostCannotIsolateError."""
    try:
        return Proved(backend, about, prove(backend, about))
    except BaseException:
        backend.close()
        raise
