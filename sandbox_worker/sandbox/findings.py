"""What was found of a host, row by row: the same rows refuse it, are printed by the doctor and shown by the pages."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from sandbox_worker.sandbox.base import HostCannotIsolateError

HOST, BUBBLEWRAP, DOCKER = "host", "bubblewrap", "docker"
"""What rows are about."""


class State(StrEnum):
    OK = "ok"
    WEAKER = "weaker"
    """It works, but not as it should."""
    MISSING = "missing"
    """Without it, or while it is so, no box is safe."""
    NOT_NEEDED = "not needed"
    """It is not there, and nothing asks for it."""


@dataclass(frozen=True)
class Finding:
    about: str
    """HOST, or the back end whose boxes were probed."""
    name: str
    state: State
    found: str
    """In words, with numbers and their units."""
    mend: str = ""
    """What to do about it; empty where there is nothing to do."""


def found_of(about: str, name: str, look: Callable[[], Finding]) -> Finding:
    """What look finds; that it broke is a finding too, for one row must not hide the others."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 (whatever it is, the report tells of it and goes on)
        words = f"it could not be looked at: {type(error).__name__}: {error}"
        return Finding(about, name, State.MISSING, words, "Mend what the words before tell of, then look again.")


def refused(about: str, error: HostCannotIsolateError) -> tuple[Finding, ...]:
    """The rows of a refusal."""
    if isinstance(error, UnprovedError):
        return error.findings
    return (Finding(about, "boxes", State.MISSING, error.missing, error.mend),)


def not_needed(finding: Finding) -> Finding:
    """The same where nothing asks for it: what it lacks needs no mending."""
    if finding.state is State.OK:
        return finding
    return replace(finding, state=State.NOT_NEEDED, mend="")


def worst(findings: Iterable[Finding]) -> State:
    states = {finding.state for finding in findings}
    return next((state for state in (State.MISSING, State.WEAKER) if state in states), State.OK)


class UnprovedError(HostCannotIsolateError):
    """Boxes were tried, and something of them does not hold."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        """At least one of the findings is missing."""
        missed = [finding for finding in findings if finding.state is State.MISSING]
        mends = dict.fromkeys(finding.mend for finding in missed)
        super().__init__("; ".join(finding.found for finding in missed), " ".join(mends))
        self.findings = findings
