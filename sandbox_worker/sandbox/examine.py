"""The whole report on a host: what there is, and what was proved of its boxes."""

import shutil
from pathlib import Path

from sandbox_worker.sandbox import room
from sandbox_worker.sandbox.base import HostCannotIsolateError
from sandbox_worker.sandbox.binary import OLDEST, bundled_bubblewrap, numbers, version_of
from sandbox_worker.sandbox.choose import BUBBLEWRAP, open_proved
from sandbox_worker.sandbox.daemon import GVISOR, EngineAbsentError, EngineFacts, ask_engine, engine_address
from sandbox_worker.sandbox.findings import HOST, Finding, State, found_of, refused
from sandbox_worker.sandbox.kernel import kernel_findings


def examine(folder: Path, *, allow_weaker: bool) -> tuple[Finding, ...]:
    """Everything, with boxes of its own. Raises nothing. folder: where the data is kept."""
    return (*host_findings(folder, allow_weaker=allow_weaker), *box_findings(allow_weaker=allow_weaker))


def box_findings(*, allow_weaker: bool) -> tuple[Finding, ...]:
    try:
        proved = open_proved(allow_weaker)
    except HostCannotIsolateError as error:
        return refused(BUBBLEWRAP, error)
    proved.backend.close()
    return proved.findings


def host_findings(folder: Path, *, allow_weaker: bool) -> tuple[Finding, ...]:
    """What there is, without boxes."""
    return (
        *kernel_findings(allow_weaker=allow_weaker),
        found_of(HOST, "bubblewrap", bubblewrap),
        *engine_findings(engine_address()),
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


def engine_findings(address: str) -> tuple[Finding, ...]:
    """An Engine is not needed while bubblewrap makes the boxes."""
    try:
        facts = ask_engine(address)
    except EngineAbsentError as error:
        return (
            Finding(HOST, "Docker Engine", State.NOT_NEEDED, f"none answers: {error}"),
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
