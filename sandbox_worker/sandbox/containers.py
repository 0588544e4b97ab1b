"""What a box is to the Docker Engine: the words that make its container, and whose it is."""

from dataclasses import dataclass
from typing import Any

from docker import APIClient
from docker.types import LogConfig, Mount

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import BoxSpec
from sandbox_worker.sandbox.cgroups import OVERHEAD_PIDS
from sandbox_worker.sandbox.owner import Owner

OWNER = "assay.owner"
LABEL = "assay.label"
BUILDER = "assay.builder"
"""Of an image: the worker that made it. What has no name and a dead builder was never finished."""
_PROGRAM = "/.supervisor"
"""Where the image cannot have one of its own."""
_SHARED_MEMORY_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Recipe:
    """What all containers of a back end have in common."""

    program: str
    """The supervisor, on the Engine's host."""
    seccomp: str
    runtime: str
    """The Engine's name of it; empty for its default."""
    owner: Owner


def create(api: APIClient, spec: BoxSpec, image: str, recipe: Recipe) -> str:
    """The id of a new container that was not started. Raises docker's APIError, and BoxStartError."""
    layout.check_workdir(spec.workdir, layout.TAKEN_OF_IMAGES)
    words = layout.supervisor_words(spec, 0, 1)
    return _create(api, spec, image, recipe, words, layout.UID, {"read_only": True, "tmpfs": room_of(spec)})


def create_writable(api: APIClient, spec: BoxSpec, image: str, recipe: Recipe, *, as_root: bool) -> str:
    """Of which an image can be made: it writes to its root, and the Engine bounds no such root.

    Raises docker's APIError."""
    words = ["0", "1", *layout.lifetime(spec), "--"]
    return _create(api, spec, image, recipe, words, 0 if as_root else layout.UID, {})


def _create(
    api: APIClient, spec: BoxSpec, image: str, recipe: Recipe, words: list[str], uid: int, root: dict[str, Any]
) -> str:
    made: dict[str, Any] = api.create_container(
        image,
        entrypoint=[_PROGRAM],
        command=words,
        user=f"{uid}:{uid}",
        hostname="box",
        working_dir="/",
        environment=["LANG=C.UTF-8"],
        labels={OWNER: recipe.owner.name, LABEL: spec.label},
        stdin_open=True,
        healthcheck={"test": ["NONE"]},
        host_config=host_config(api, spec, recipe, root),
    )
    return str(made["Id"])


def host_config(api: APIClient, spec: BoxSpec, recipe: Recipe, root: dict[str, Any]) -> dict[str, Any]:
    limits = spec.limits
    config: dict[str, Any] = api.create_host_config(
        network_mode="none",
        ipc_mode="private",
        cgroupns="private",
        mem_limit=limits.memory_bytes,
        memswap_limit=limits.memory_bytes,
        nano_cpus=int(limits.cpus * 1e9),
        pids_limit=limits.pids + OVERHEAD_PIDS,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", f"seccomp={recipe.seccomp}"],
        shm_size=_SHARED_MEMORY_BYTES,
        mounts=[Mount(target=_PROGRAM, source=recipe.program, type="bind", read_only=True)],
        log_config=LogConfig(type="none", config={}),
        runtime=recipe.runtime or None,
        **root,
    )
    return config


def room_of(spec: BoxSpec) -> dict[str, str]:
    folders = [path for path in layout.quota_folders(spec) if path != layout.SHARED_MEMORY]
    return {path: tmpfs(spec.limits.disk_bytes, path) for path in folders}


def tmpfs(size: int, path: str) -> str:
    """With a uid: the mode of a folder that the image has would else win."""
    mode = "1777" if path == "/tmp" else "0755"
    return f"size={size},mode={mode},uid={layout.UID},gid={layout.UID},exec,nosuid,nodev"
