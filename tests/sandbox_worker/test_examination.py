"""What was found of a host is told at first, then rarely, and again when it was found anew."""

import logging
import time

import pytest

from sandbox_worker.examination import AGAIN_SECONDS, AT_FIRST, REPEAT_SECONDS, Examination
from sandbox_worker.sandbox.findings import Finding, State

OK = Finding("host", "kernel", State.OK, "Linux 6")
GONE = Finding("bubblewrap", "memory", State.MISSING, "the memory limit does not take effect", "Delegate groups.")


def told(examination: Examination, now: float) -> list[str]:
    rows = examination.to_tell(now).get("findings", ())
    assert isinstance(rows, tuple)
    return [row.name for row in rows]


def test_the_first_heartbeats_tell_it_and_then_one_in_a_while() -> None:
    examination, now = Examination((OK,), lambda: (GONE,)), time.monotonic()
    assert [told(examination, now) for _ in range(AT_FIRST)] == [["kernel"]] * AT_FIRST
    assert told(examination, now + AGAIN_SECONDS - 1) == []
    assert told(examination, now + AGAIN_SECONDS) == ["kernel"]
    assert told(examination, now + AGAIN_SECONDS) == []


def test_it_is_repeated_once_a_day_and_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    examination, now = Examination((OK,), lambda: (GONE,)), time.monotonic()
    for _ in range(AT_FIRST):
        told(examination, now)
    examination.repeat_if_due(now + REPEAT_SECONDS - 60)
    assert told(examination, now) == []
    with caplog.at_level(logging.ERROR):
        examination.repeat_if_due(now + REPEAT_SECONDS)
    assert told(examination, now) == ["memory"]
    assert "memory of bubblewrap: the memory limit does not take effect. Delegate groups." in caplog.text


def test_rows_are_told_with_the_time_at_which_they_were_found() -> None:
    before = time.time()
    at = Examination((OK,), lambda: ()).to_tell(time.monotonic())["examined_at"]
    assert isinstance(at, float)
    assert before <= at <= time.time()
