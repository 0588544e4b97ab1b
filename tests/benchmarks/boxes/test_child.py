import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.boxes.child import ArmFailedError, ArmSpec, Child

ARM = "tests.benchmarks.boxes.arm"


@pytest.fixture
def child(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Child]:
    """Its parameter says how the arm behaves."""
    options = (getattr(request, "param", "well"),)
    child = Child(ArmSpec("An arm, cold", ARM, options), Path(sys.executable), tmp_path, {})
    yield child
    child.close()


def test_it_answers_batch_after_batch_in_one_process(child: Child) -> None:
    for _ in range(2):
        batch = child.ask("first_commands", at_once=1, count=2, seconds=30)
        assert len(batch.samples["first command, 1 at once"]) == 2
        pid = child.pid
    assert child.pid == pid != 0


@pytest.mark.parametrize("child", ["talkative"], indirect=True)
def test_what_an_arm_prints_is_no_answer(child: Child) -> None:
    child.ask("round_trips", count=1, seconds=30)
    assert "I print" in child.log_tail()


@pytest.mark.parametrize("child", ["broken"], indirect=True)
def test_an_arm_that_cannot_be_made_says_why(child: Child) -> None:
    with pytest.raises(ArmFailedError, match="RuntimeError: cannot be made"):
        child.start()


@pytest.mark.parametrize("child", ["dying"], indirect=True)
def test_an_arm_that_dies_is_started_again(child: Child) -> None:
    with pytest.raises(ArmFailedError, match="has died"):
        child.ask("first_commands", at_once=1, count=1, seconds=30)
    assert child.pid == 0
    child.start()
    assert child.pid != 0


@pytest.mark.parametrize("child", ["hanging"], indirect=True)
def test_an_arm_that_hangs_is_killed(child: Child) -> None:
    with pytest.raises(ArmFailedError, match="no answer in 1 s"):
        child.ask("round_trips", count=1, seconds=1)
    assert child.pid == 0


@pytest.mark.parametrize("child", ["settling badly"], indirect=True)
def test_a_batch_that_fails_as_a_whole_says_why_and_the_process_lives_on(child: Child) -> None:
    child.start()
    pid = child.pid
    with pytest.raises(ArmFailedError, match="RuntimeError: never rested"):
        child.ask("round_trips", count=1, seconds=30)
    assert child.pid == pid


def test_a_name_becomes_a_plain_word() -> None:
    assert ArmSpec("SWE-ReX, local (no isolation)", ARM).slug == "swe-rex-local-no-isolation"
