"""The whole report on a host: what there is, and what was proved of its boxes."""

import shutil
from pathlib import Path

from sandbox_worker.sandbox import room
from sandbox_worker.sandbox.base import HostCannotIsolateError
from sandbox_worker.sandbox.binary import OLDEST, bundled_bubblewrap, numbers, version_of
from sandbox_worker.sandbox.choose import Wanted, open_proved
from sandbox_worker.sandbox.daemon import GVISOR, MEND, EngineAbsentError, EngineFacts, ask_engine
from sandbox_worker.sandbox.findings import DOCKER, HOST, Finding, State, UnprovedError, found_of, not_needed
from sandbox_worker.sandbox.kernel import control_groups, kernel_findings, user_namespaces

_MEND_GVISOR = "Install gVisor and name it in /etc/docker/daemon.json, or unset ASSAY_DOCKER_RUNTIME."


def examine(folder: Path, wanted: Wanted) -> tuple[Finding, ...]:
    """Everything, with boxes of its own. Raises nothing. folder: where the data is kept."""
    try:
        proved = open_proved(wanted)
    except UnprovedError as error:
        return (*host_findings(folder, wanted), *error.findings)
    proved.backend.close()
    return (*host_findings(folder, wanted, proved.about), *proved.findings)


def host_findings(folder: Path, wanted: Wanted, chosen: str = "") -> tuple[Finding, ...]:
    """What there is, without boxes. chosen: the back end that makes them; empty where none can."""
    own = [
        found_of(HOST, "user namespaces", user_namespaces),
        found_of(HOST, "control groups", lambda: control_groups(allow_weaker=wanted.allow_weaker)),
        found_of(HOST, "bubblewrap", bubblewrap),
    ]
    return (
        *kernel_findings(),
        *(map(not_needed, own) if DOCKER in (wanted.kind, chosen) else own),
        *engine_findings(wanted),
        found_of(HOST, "disk", lambda: room.disk("disk", folder)),
        found_of(HOST, "memory", room.memory),
    )


def bubblewrap() -> Finding:
    """The system's and the bundled one, and which of them makes the boxes."""
    system = shutil.which("bwrap")
    installed = version_of(system) if system else None
    own = f"the system's is {installed} at {system}" if installed else "the system has none"
    bundled, refusal = bundled_version()
    beside = f"the bundled one is {bundled}" if bundled else f"none is bundled ({refusal.missing if refusal else '?'})"
    if installed and numbers(installed) >= OLDEST:
        return Finding(HOST, "bubblewrap", State.OK, f"{own}, which is used; {beside}")
    if bundled:
        return Finding(HOST, "bubblewrap", State.OK, f"{beside}, which is used; {own}")
    return Finding(HOST, "bubblewrap", State.MISSING, f"{own}; {beside}", refusal.mend if refusal else "")


def bundled_version() -> tuple[str, HostCannotIsolateError | None]:
    try:
        found = bundled_bubblewrap()
    except HostCannotIsolateError as error:
        return "", error
    found.close()
    return found.version, None


def engine_findings(wanted: Wanted) -> tuple[Finding, ...]:
    """An Engine is not needed unless it was asked for by name, nor is gVisor."""
    try:
        facts = ask_engine(wanted.docker_url)
    except EngineAbsentError as error:
        absent = Finding(HOST, "Docker Engine", State.MISSING, f"none answers: {error}", MEND)
        return (
            absent if wanted.kind == DOCKER else not_needed(absent),
            Finding(HOST, "gVisor", State.NOT_NEEDED, "it comes with a Docker Engine"),
        )
    words = f"{facts.version} at {facts.address}; cgroups {facts.cgroups}; storage {facts.storage}"
    return (
        Finding(HOST, "Docker Engine", State.OK, words),
        gvisor(facts) if wanted.docker_runtime == GVISOR else not_needed(gvisor(facts)),
        found_of(HOST, "disk of Docker", lambda: room.disk("disk of Docker", facts.root)),
    )


def gvisor(facts: EngineFacts) -> Finding:
    runtimes = ", ".join(facts.runtimes)
    if GVISOR in facts.runtimes:
        return Finding(HOST, "gVisor", State.OK, f"{GVISOR} is among the Engine's runtimes: {runtimes}")
    words = f"{GVISOR} is not among the Engine's runtimes: {runtimes}"
    return Finding(HOST, "gVisor", State.MISSING, words, _MEND_GVISOR)
