"""What was found of a host that makes boxes, one row: told by workers and the doctor, kept and shown by the pages."""

from collections.abc import Iterable
from typing import Literal

import msgspec

State = Literal["ok", "weaker", "missing", "not needed"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    about: str
    """'host', or the back end whose boxes were tried."""
    name: str
    state: State
    found: str
    """In words, with numbers and their units."""
    mend: str = ""
    """What to do about it; commands stand between backticks."""


def worst(findings: Iterable[Finding]) -> State:
    """Missing: no safe box can be made. Weaker: some can, with less than the default."""
    states = {finding.state for finding in findings}
    if "missing" in states:
        return "missing"
    return "weaker" if "weaker" in states else "ok"


def mends(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """What is to be done, each thing once, with the rows that ask for it: one cause is often found several times."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.mend:
            found.setdefault(finding.mend, []).append(finding)
    return found
