import time

import pytest

from sandbox_worker.attempt import Attempt, AttemptCancelledError
from sandbox_worker.errors import BoundaryError, boundary
from sandbox_worker.sandbox.base import SandboxError
from tests.sandbox_worker.factories import rollout_request


def attempt(seconds: float = 60.0) -> Attempt:
    return Attempt(rollout_request(("k", "d"), deadline=time.time() + seconds))


def test_a_cancel_kills_what_is_held_and_only_that() -> None:
    killed: list[str] = []
    held = attempt()
    with held.holding(lambda: killed.append("first")):
        pass
    with held.holding(lambda: killed.append("second")):
        held.cancel()
    assert killed == ["second"]


def test_a_box_that_will_not_die_keeps_no_other_from_being_killed() -> None:
    killed: list[str] = []

    def undying() -> None:
        raise SandboxError("will not die")

    held = attempt()
    with held.holding(undying), held.holding(lambda: killed.append("second")):
        held.cancel()
    assert killed == ["second"]


def test_what_is_taken_after_a_cancel_is_killed_at_once() -> None:
    killed: list[str] = []
    held = attempt()
    held.cancel()
    with pytest.raises(AttemptCancelledError), held.holding(lambda: killed.append("late")):
        pass
    assert killed == ["late"]


def test_a_passed_deadline_breaks_the_attempt() -> None:
    with pytest.raises(BoundaryError, match="deadline"):
        attempt(seconds=-1).check()


def test_the_innermost_boundary_names_an_error() -> None:
    with pytest.raises(BoundaryError) as caught, boundary("worker"), boundary("box"):
        raise ValueError("broke")
    assert (caught.value.boundary, caught.value.evidence) == ("box", "ValueError: broke")


def test_a_cancel_crosses_boundaries_unnamed() -> None:
    with pytest.raises(AttemptCancelledError), boundary("policy"):
        raise AttemptCancelledError
