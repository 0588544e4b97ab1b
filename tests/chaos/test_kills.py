"""kill -9 of each process in the middle of a run: it ends all the same, nothing is lost, nothing counts twice."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.chaos.audit import Audit
from tests.chaos.launch import GRPO_STEPS, SFT_STEPS
from tests.chaos.stack import Stack, supplied_stack

pytestmark = [pytest.mark.process, pytest.mark.sandbox, pytest.mark.chaos]

RUN_SECONDS = 150

OF = """
SELECT count(*) FROM rollouts_rollout r JOIN rollouts_group g ON g.id = r.group_id
WHERE r.run_id = %s AND g.purpose = '{}' AND r.state IN ({})
"""
EVALUATING, TRAINING = OF.format("evaluation", "'queued', 'active'"), OF.format("train", "'queued', 'active'")
HELD = OF.format("evaluation", "'active'")
HANDED = "SELECT count(*) FROM training_learnerstep WHERE run_id = %s AND kind = 'grpo' AND state = 'handed'"
STEPS = "SELECT count(*) FROM training_learnerstep WHERE run_id = %s AND kind = 'grpo' AND state = 'applied'"


@dataclass
class Training:
    """One run, from its launch to its end."""

    stack: Stack
    run: int
    before: frozenset[int] = frozenset()

    def reaches(self, query: str, least: int = 1) -> None:
        self.stack.until(lambda: self.stack.number(query, self.run) >= least, query, seconds=RUN_SECONDS)
        self.before = self._trajectories()

    def _trajectories(self) -> frozenset[int]:
        rows = self.stack.rows("SELECT attempt_id FROM trajectories_trajectory WHERE run_id = %s", self.run)
        return frozenset(row[0] for row in rows)

    def ends_whole(self) -> Audit:
        """The run finishes by itself, and everything adds up."""
        query = "SELECT count(*) FROM runs_run WHERE id = %s AND state IN ('finished', 'failed')"
        self.stack.until(lambda: self.stack.number(query, self.run), "the run ends", seconds=RUN_SECONDS)
        found = Audit(**self.stack.act("audit", str(self.run)))
        what = f"{found}\n{self.stack.story()}"
        assert (found.state, found.problems, found.parked) == ("finished", [], 0), what
        assert self.before <= set(found.trajectories), what
        assert found.versions == sorted(set(found.versions)), what
        assert (found.steps["sft applied"], found.steps["grpo applied"]) == (SFT_STEPS, GRPO_STEPS), what
        return found


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with supplied_stack() as stack:
        yield stack


@pytest.fixture
def training(stack: Stack, request: pytest.FixtureRequest) -> Training:
    return Training(stack, stack.act("launch", request.node.name))


def test_a_killed_sandbox_worker_is_replaced_and_its_rollouts_are_tried_again(training: Training) -> None:
    training.reaches(EVALUATING, 4)
    with training.stack.held("policy"):  # so that none ends meanwhile
        training.reaches(HELD)
        training.stack.kill("sandbox")
    assert training.ends_whole().attempts["lost"] > 0


def test_a_killed_learner_goes_back_to_a_resume_point_and_no_version_is_used_again(training: Training) -> None:
    training.reaches(STEPS)
    training.reaches(HANDED)
    training.stack.kill("learner")
    assert training.ends_whole().steps["grpo rewound"] > 0


def test_a_killed_policy_server_is_loaded_again_and_its_rollouts_wait_for_it(training: Training) -> None:
    training.reaches(EVALUATING, 2)
    training.stack.kill("policy")
    training.reaches(TRAINING, 2)
    training.stack.kill("policy")
    assert "lost" not in training.ends_whole().attempts


def test_killed_web_and_control_processes_harm_no_run(training: Training) -> None:
    training.reaches(EVALUATING, 2)
    training.stack.kill("control")
    training.stack.kill("web")
    training.reaches(TRAINING, 2)
    training.stack.kill("beat")
    training.stack.kill("control")
    assert "lost" not in training.ends_whole().attempts
    training.stack.until(training.stack.answers, "the pages answer", seconds=30)


def test_rollouts_whose_messages_a_flushed_broker_lost_are_sent_again(stack: Stack) -> None:
    valkey = stack.valkey()
    with stack.held("sandbox"):
        valkey.client_kill_filter(_type="normal", skipme=True)  # else the held one is given the batch all the same
        training = Training(stack, stack.act("launch", "flushed"))
        stack.until(lambda: valkey.llen("rollouts"), "a batch waits", seconds=RUN_SECONDS)
        valkey.flushall()
    assert training.ends_whole().attempts["lost"] > 0


def test_a_killed_broker_stops_no_run(training: Training) -> None:
    training.reaches(EVALUATING, 2)
    training.stack.kill("broker")
    training.reaches(TRAINING, 2)
    training.stack.valkey().flushall()
    training.stack.kill("broker")
    training.ends_whole()


def test_a_killed_database_keeps_what_was_recorded(training: Training) -> None:
    training.reaches(EVALUATING, 2)
    training.stack.kill("database")
    training.reaches(TRAINING, 2)
    training.stack.kill("database")
    training.ends_whole()


def test_when_all_of_it_is_killed_nothing_is_left_and_up_goes_on(training: Training) -> None:
    stack = training.stack
    training.reaches(TRAINING, 2)
    stack.kill_whole()
    stack.until(lambda: stack.left() == [], "all are gone", seconds=10)
    stack.start()
    training.ends_whole()


def test_ctrl_c_in_the_middle_ends_all_within_ten_seconds_and_up_goes_on(training: Training) -> None:
    stack = training.stack
    training.reaches(EVALUATING, 2)
    assert stack.stop() < 10
    assert stack.left() == []
    stack.start()
    training.ends_whole()
    assert stack.stop() < 10
    assert stack.left() == []
