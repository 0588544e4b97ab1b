import pytest

from apps.buffer.models import Batch
from apps.runs.control import pause
from apps.runs.models import Run
from apps.training.lease import has_learner, learner_holder
from apps.training.models import LearnerStep
from tests.apps.factories import START, running

pytestmark = pytest.mark.django_db


def take_step(run: Run) -> None:
    batch = Batch.objects.create(
        run=run, kind="grpo", base_version=run.policy_version, groups=1, sequences=1, tokens=1, state="applied"
    )
    LearnerStep.objects.create(
        run=run,
        batch=batch,
        kind="grpo",
        number=1,
        parent_version=run.policy_version,
        version=run.next_version(),
        handed_at=START,
        sent_at=START,
        state="applied",
    )


def test_the_first_run_to_start_has_the_learner_and_the_other_waits() -> None:
    first, second = running(name="first"), running(name="second")
    assert (has_learner(first), has_learner(second)) == (True, False)


def test_a_run_that_has_made_steps_keeps_the_learner() -> None:
    first, second = running(name="first"), running(name="second")
    take_step(second)
    assert (has_learner(first), has_learner(second)) == (False, True)


def test_a_paused_or_ended_training_gives_the_learner_away() -> None:
    first, second, third = running(name="first"), running(name="second"), running(name="third")
    take_step(first)
    pause(first, "ana")
    assert has_learner(second)
    second.end_training("all steps are done")
    assert has_learner(third)


def test_nobody_has_it_while_nothing_trains() -> None:
    assert learner_holder() is None
