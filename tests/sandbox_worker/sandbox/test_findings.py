"""Rows of a report: what they say together."""

from sandbox_worker.sandbox.base import HostCannotIsolateError
from sandbox_worker.sandbox.findings import HOST, Finding, State, UnprovedError, found_of, not_needed, refused, worst

OK = Finding(HOST, "kernel", State.OK, "Linux 6")
WEAKER = Finding("bubblewrap", "cpu", State.WEAKER, "no quota", "Delegate cpu.")
NO_MEMORY = Finding("bubblewrap", "memory", State.MISSING, "no memory limit", "Delegate groups.")
NO_PIDS = Finding("bubblewrap", "processes", State.MISSING, "no process limit", "Delegate groups.")


def test_the_worst_row_decides() -> None:
    assert worst([OK, Finding(HOST, "gVisor", State.NOT_NEEDED, "none")]) is State.OK
    assert worst([OK, WEAKER]) is State.WEAKER
    assert worst([WEAKER, NO_MEMORY, OK]) is State.MISSING
    assert worst([]) is State.OK


def test_a_refusal_names_all_that_is_missing_and_each_way_out_once() -> None:
    error = UnprovedError((OK, WEAKER, NO_MEMORY, NO_PIDS))
    assert str(error) == "This host cannot isolate: no memory limit; no process limit. Delegate groups."
    assert refused("bubblewrap", error) == (OK, WEAKER, NO_MEMORY, NO_PIDS)


def test_a_refusal_before_any_box_is_a_row_too() -> None:
    (row,) = refused("bubblewrap", HostCannotIsolateError("there is no bwrap", "Install it."))
    assert row == Finding("bubblewrap", "boxes", State.MISSING, "there is no bwrap", "Install it.")


def test_what_is_not_needed_asks_for_no_mending() -> None:
    assert not_needed(OK) == OK
    row = not_needed(NO_MEMORY)
    assert (row.state, row.found, row.mend) == (State.NOT_NEEDED, NO_MEMORY.found, "")


def test_a_row_that_could_not_be_made_says_why() -> None:
    def look() -> Finding:
        raise PermissionError("not yours")

    row = found_of(HOST, "kernel", look)
    assert (row.name, row.state) == ("kernel", State.MISSING)
    assert "PermissionError: not yours" in row.found
