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
    layout.check_workdir(spec.workdir)
    made: dict[str, Any] = api.create_container(
        image,
        entrypoint=[_PROGRAM],
        command=layout.supervisor_words(spec, 0, 1),
        user=f"{layout.UID}:{layout.UID}",
        hostname="box",
        working_dir="/",
        environment=["LANG=C.UTF-8"],
        labels={OWNER: recipe.owner.name, LABEL: spec.label},
        stdin_open=True,
        healthcheck={"test": ["NONE"]},
        host_config=host_config(api, spec, recipe),
    )
    return str(made["Id"])


def host_config(api: APIClient, spec: BoxSpec, recipe: Recipe) -> dict[str, Any]:
    limits = spec.limits
    config: dict[str, Any] = api.create_host_config(
        network_mode="none",
        ipc_mode="private",
        cgroupns="private",
        mem_limit=limits.memory_bytes,
        memswap_limit=limits.memory_bytes,
        nano_cpus=int(limits.cpus * 1e9),
        pids_limit=limits.pids + OVERHEAD_PIDS,
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", f"seccomp={recipe.seccomp}"],
        tmpfs={
            path: tmpfs(limits.disk_bytes, path) for path in layout.quota_folders(spec) if path != layout.SHARED_MEMORY
        },
        shm_size=_SHARED_MEMORY_BYTES,
        mounts=[Mount(target=_PROGRAM, source=recipe.program, type="bind", read_only=True)],
        log_config=LogConfig(type="none", config={}),
        runtime=recipe.runtime or None,
    )
    return config


def tmpfs(size: int, path: str) -> str:
    """With a uid: the mode of a folder that the image has would else win."""
    mode = "1777" if path == "/tmp" else "0755"
    return f"size={size},mode={mode},uid={layout.UID},gid={layout.UID},exec,nosuid,nodev"
