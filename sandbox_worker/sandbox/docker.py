"""Boxes of a Docker Engine: hardened containers with our supervisor as PID 1, spoken to over one attached socket.

No exec of the Engine's is used: it has no time limit, leaves processes behind and costs ten times as much.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import docker
from docker import APIClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from requests.exceptions import RequestException

from sandbox_worker.sandbox import containers
from sandbox_worker.sandbox.attach import AttachedSocket
from sandbox_worker.sandbox.base import BoxSpec, BoxStartError, HostCannotIsolateError, SandboxError, Usage
from sandbox_worker.sandbox.channel import Channel, ChannelClosedError, ChannelTimeoutError
from sandbox_worker.sandbox.container_counts import cgroup_of
from sandbox_worker.sandbox.daemon import MEND, EngineAbsentError, ask_engine
from sandbox_worker.sandbox.docker_seccomp import profile
from sandbox_worker.sandbox.ending import Counts
from sandbox_worker.sandbox.keeping import KeepingBackend
from sandbox_worker.sandbox.owner import Owner
from sandbox_worker.sandbox.program import program_path, supervisor_program
from sandbox_worker.sandbox.supervised import Body, SupervisedBox

START_SECONDS = 120.0
_CALL_SECONDS = 60
_PING_SECONDS = 3.0
_CONNECTIONS = 64
_OOM_NEWS_SECONDS = 0.5
"""How late the Engine may learn that the kernel killed a container."""
ENGINE_ERRORS = (DockerException, RequestException)


class EngineError(SandboxError):
    """The Docker Engine does not answer, or refused."""


class ContainerBody(Body):
    def __init__(self, api: APIClient, container: str, pid: int) -> None:
        self.pid = pid
        self.name = container[:12]
        self._api = api
        self._container = container
        self._cgroup = cgroup_of(pid)
        self._counts = Counts()
        self._usage = Usage(0.0, 0, 0)

    def counts(self) -> Counts:
        try:
            if self._cgroup:
                self._counts = Counts(self._cgroup.oom_kills(), self._cgroup.pid_refusals())
        except OSError:  # the group went with the container
            if self._was_out_of_memory():
                return Counts(self._counts.oom_kills + 1, self._counts.pid_refusals)
        return self._counts

    def usage(self) -> Usage:
        try:
            if self._cgroup:
                self._usage = self._cgroup.usage()
        except OSError:
            return self._usage  # as last seen: the group went with the container
        return self._usage

    def silence(self) -> str:
        """All that is said to and by a box passes through the Engine."""
        try:
            self._api.get(f"{self._api.base_url}/_ping", timeout=_PING_SECONDS).raise_for_status()
        except ENGINE_ERRORS as error:
            return f"The Docker Engine does not answer: {error}."
        return ""

    def kill(self) -> None:
        try:
            self._api.kill(self._container)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:  # it is not running
                raise EngineError(f"The container was not killed: {error}.") from error
        except ENGINE_ERRORS as error:
            raise EngineError(f"The container was not killed: {error}.") from error

    def end(self) -> None:
        try:
            remove(self._api, self._container)
        except ENGINE_ERRORS as error:
            raise EngineError(f"The container was not removed: {error}.") from error

    def _was_out_of_memory(self) -> bool:
        until = time.monotonic() + _OOM_NEWS_SECONDS
        while True:
            try:
                state: dict[str, Any] = self._api.inspect_container(self._container)["State"]
            except ENGINE_ERRORS:
                return False
            if state["OOMKilled"] or time.monotonic() > until:
                return bool(state["OOMKilled"])
            time.sleep(0.02)


class DockerBackend(KeepingBackend):
    """Boxes on a daemon of this host."""

    weaker = ""

    def __init__(self, url: str, *, image: str, runtime: str = "") -> None:
        """image: of boxes whose spec names none. runtime: runc where empty, or runsc (gVisor), as the Engine names it.

        Raises HostCannotIsolateError."""
        self.api = connect(url)
        supervisor_program()
        self._owner = Owner.this_process()
        self.image = image
        self.own: set[str] = set()
        """Ids of the containers of this process, while it has them."""
        self.recipe = containers.Recipe(str(program_path()), profile(), runtime, self._owner)
        try:
            self.isolation = describe(self.api, runtime)
            require_image(self.api, image, url)
        except BaseException:
            self.api.close()
            raise
        super().__init__()

    def reap(self) -> int:
        """Containers of dead workers, and those that ended while nobody was there to remove them; unfinished images."""
        removed = 0
        try:
            for found in our_containers(self.api):
                if self._is_left(found):
                    remove(self.api, found["Id"])
                    removed += 1
            remove_unfinished(self.api)
        except ENGINE_ERRORS as error:
            raise EngineError(f"The Docker Engine was not searched for what dead workers left: {error}.") from error
        return removed

    def _is_left(self, found: dict[str, Any]) -> bool:
        if found["Labels"][containers.OWNER] == self._owner.name:  # made after we had stopped waiting for it
            return found["Id"] not in self.own and time.time() - found["Created"] > _CALL_SECONDS + START_SECONDS
        return is_left(found)

    def _let_go(self) -> None:
        self.api.close()

    def _start(self, spec: BoxSpec, undo: ExitStack) -> SupervisedBox:
        release = undo.enter_context(ExitStack())
        with engine_errors():
            container = containers.create(self.api, spec, spec.image or self.image, self.recipe)
            undo.callback(remove, self.api, container)
            release.enter_context(self.holding(container))
            return started(self.api, container, spec, undo, release)

    @contextmanager
    def holding(self, container: str) -> Iterator[None]:
        """While it is in use here, the reaper leaves it alone."""
        self.own.add(container)
        try:
            yield
        finally:
            self.own.discard(container)


def connect(url: str) -> APIClient:
    """Raises HostCannotIsolateError."""
    try:
        ask_engine(url, seconds=_CALL_SECONDS)
        return docker.APIClient(base_url=url, timeout=_CALL_SECONDS, max_pool_size=_CONNECTIONS, version="auto")
    except (EngineAbsentError, *ENGINE_ERRORS) as error:
        raise HostCannotIsolateError(f"there is no Docker Engine at {url} ({error})", MEND) from error


def describe(api: APIClient, runtime: str) -> str:
    """Raises HostCannotIsolateError for a runtime that the Engine does not have."""
    info: dict[str, Any] = api.info()
    if runtime and runtime not in info["Runtimes"]:
        known = ", ".join(sorted(info["Runtimes"]))
        mend = f"Install it and name it in /etc/docker/daemon.json, or set ASSAY_DOCKER_RUNTIME to one of {known}."
        raise HostCannotIsolateError(f"the Docker Engine has no runtime {runtime!r}", mend)
    groups = f"cgroup v{info.get('CgroupVersion', '1')}"
    return f"Docker {info['ServerVersion']}, {runtime or info['DefaultRuntime']}, one uid, {groups}, seccomp"


def require_image(api: APIClient, image: str, url: str) -> None:
    """Raises HostCannotIsolateError where boxes whose task names no image would have none, or one with volumes."""
    mend = f"Make it with manage.py build_base_image --docker {url}, or name another in ASSAY_DOCKER_IMAGE."
    try:
        found = described(api, image)
    except APIError as error:
        words = f"the Docker Engine has no image {image!r} for its boxes ({error.explanation})"
        raise HostCannotIsolateError(words, mend) from error
    if volumes := found["Config"].get("Volumes"):
        raise HostCannotIsolateError(f"the image {image!r} has volumes, without a limit: {', '.join(volumes)}", mend)


def described(api: APIClient, image: str) -> dict[str, Any]:
    """What the Engine says of an image. Raises ImageNotFound, and docker's other errors."""
    return dict(api.inspect_image(image))  # type: ignore[no-untyped-call]


def remove_unfinished(api: APIClient) -> None:
    """Images of builds whose worker died. Raises docker's errors."""
    wanted = {"label": containers.BUILDER, "dangling": True}
    while left := [found for found in api.images(filters=wanted) if _was_left(found)]:
        for found in left:
            try:
                api.remove_image(found["Id"], noprune=True)
            except NotFound:
                continue  # another was faster
            except APIError as error:
                if error.status_code == 409:  # of a container that goes first, at the next pass
                    return
                raise


def _was_left(image: dict[str, Any]) -> bool:
    builder = Owner.parse(image["Labels"][containers.BUILDER])
    return builder is not None and builder.is_dead()


def started(api: APIClient, container: str, spec: BoxSpec, undo: ExitStack, release: ExitStack) -> SupervisedBox:
    """The box of a new container. Where this raises, undo removes it; else the box has taken it over, with release.

    Raises BoxStartError, and docker's errors."""
    wire = attach(api, container)
    undo.callback(wire.close)
    api.start(container)
    channel = Channel(wire)
    await_ready(channel, wire)
    pid = int(api.inspect_container(container)["State"]["Pid"])
    box = SupervisedBox(spec, channel, ContainerBody(api, container, pid), release.pop_all())
    undo.pop_all()
    return box


def our_containers(api: APIClient) -> list[dict[str, Any]]:
    """Those of any worker. Raises docker's errors."""
    found: list[dict[str, Any]] = api.containers(all=True, filters={"label": containers.OWNER})
    return found


def is_left(found: dict[str, Any]) -> bool:
    """Its worker is dead, or cannot be seen from here and the container has ended.

    One that lives is about to ask how its container ended, and removes it itself."""
    owner = Owner.parse(found["Labels"][containers.OWNER])
    if owner is None or owner.is_dead():
        return owner is not None
    return owner.is_hidden() and found["State"] in ("exited", "dead")


def remove(api: APIClient, container: str) -> None:
    """Kill it, and wait until nothing of it is left. Raises docker's errors."""
    try:
        api.remove_container(container, force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:
            raise
        api.wait(container, timeout=_CALL_SECONDS, condition="removed")  # another removes it already


def attach(api: APIClient, container: str) -> AttachedSocket:
    stream = api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    answer = stream._response  # noqa: SLF001 (its connection is this container's alone, and closed by nothing else)
    return AttachedSocket(socket.socket(fileno=os.dup(stream.fileno())), answer.close)


def await_ready(channel: Channel, wire: AttachedSocket) -> None:
    """Raises BoxStartError with what the container had to say."""
    try:
        channel.await_ready(START_SECONDS)
    except (ChannelClosedError, ChannelTimeoutError) as error:
        raise BoxStartError(wire.errors.decode("utf-8", "replace").strip() or str(error)) from error


@contextmanager
def engine_errors() -> Iterator[None]:
    """As a box that did not start."""
    try:
        yield
    except ImageNotFound as error:
        raise BoxStartError(f"The image is missing on this host: {error.explanation}.") from error
    except ENGINE_ERRORS as error:
        why = error.explanation if isinstance(error, APIError) else str(error)
        raise BoxStartError(f"The Docker Engine did not start the box: {why}.") from error
