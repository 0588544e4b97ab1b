"""The whole report on a host: what there is, and what was proved of its boxes."""

import shutil
from pathlib import Path

from sandbox_worker.sandbox import room
from sandbox_worker.sandbox.base import HostCannotIsolateError
from sandbox_worker.sandbox.binary import OLDEST, bundled_bubblewrap, numbers, version_of
from sandbox_worker.sandbox.choose import DOCKER, Wanted, open_proved
from sandbox_worker.sandbox.daemon import GVISOR, EngineAbsentError, EngineFacts, ask_engine
from sandbox_worker.sandbox.findings import HOST, Finding, State, UnprovedError, found_of
from sandbox_worker.sandbox.kernel import kernel_findings

_MEND_ENGINE = "Start it, or unset ASSAY_SANDBOX_BACKEND, so that bubblewrap makes the boxes."


def examine(folder: Path, wanted: Wanted) -> tuple[Finding, ...]:
    """Everything, with boxes of its own. Raises nothing. folder: where the data is kept."""
    return (*host_findings(folder, wanted), *box_findings(wanted))


def box_findings(wanted: Wanted) -> tuple[Finding, ...]:
    try:
        proved = open_proved(wanted)
    except UnprovedError as error:
        return error.findings
    proved.backend.close()
    return proved.findings


def host_findings(folder: Path, wanted: Wanted) -> tuple[Finding, ...]:
    """What there is, without boxes."""
    return (
        *kernel_findings(allow_weaker=wanted.allow_weaker or wanted.kind == DOCKER),
        found_of(HOST, "bubblewrap", bubblewrap),
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
    """An Engine is not needed while bubblewrap makes the boxes."""
    try:
        facts = ask_engine(wanted.docker_url)
    except EngineAbsentError as error:
        state = State.MISSING if wanted.kind == DOCKER else State.NOT_NEEDED
        return (
            Finding(
                HOST, "Docker Engine", state, f"none answers: {error}", _MEND_ENGINE if wanted.kind == DOCKER else ""
            ),
            Finding(HOST, "gVisor", State.NOT_NEEDED, "it comes with a Docker Engine"),
        )
    words = f"{facts.version} at {facts.address}; cgroups {facts.cgroups}; storage {facts.storage}"
    return (
        Finding(HOST, "Docker Engine", State.OK, words),
        gvisor(facts),
        found_of(HOST, "disk of Docker", lambda: room.disk("disk of Docker", facts.root)),
    )


def gvisor(facts: EngineFacts) -> Finding:
    runtimes = ", ".join(facts.runtimes)
    if GVISOR in facts.runtimes:
        return Finding(HOST, "gVisor", State.OK, f"{GVISOR} is among the Engine's runtimes: {runtimes}")
    return Finding(HOST, "gVisor", State.NOT_NEEDED, f"{GVISOR} is not among the Engine's runtimes: {runtimes}")
