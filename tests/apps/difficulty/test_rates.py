import pytest

from apps.buffer.models import Batch
from apps.difficulty.rates import HALF_LIFE, RECENT_STEPS, recent_rates
from apps.runs.models import Run
from apps.training.models import LearnerStep
from tests.apps.factories import START, play, running

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def make_steps(run: Run, versions: range, *, state: str = "applied") -> None:
    for version in versions:
        batch = Batch.objects.create(
            run=run, kind="grpo", base_version=0, groups=1, sequences=1, tokens=0, state="applied"
        )
        LearnerStep.objects.create(
            run=run, batch=batch, kind="grpo", number=version, parent_version=version - 1, version=version, state=state,
            handed_at=START, sent_at=START,
        )  # fmt: skip
        run.take_version(version)


def counted(run: Run) -> tuple[float, float]:
    (found,) = recent_rates(run).values()
    return found.solved, found.tries


def test_rates_count_verdicts_of_recent_steps_the_newer_the_more() -> None:
    run = running()
    play(run, ["solved", "unsolved", "none"])
    assert counted(run) == (1, 2)
    make_steps(run, range(1, HALF_LIFE + 1))
    assert counted(run) == (0.5, 1)
    make_steps(run, range(HALF_LIFE + 1, RECENT_STEPS + 2))
    assert recent_rates(run) == {}


def test_after_a_rewind_the_dead_branch_counts_for_nothing_and_its_numbers_make_nothing_old() -> None:
    run = running()
    play(run, ["solved", "unsolved"])
    make_steps(run, range(1, 21), state="rewound")
    play(run, ["solved", "solved"])
    run.take_version(0)
    assert counted(run) == (1, 2)
    make_steps(run, range(21, 21 + HALF_LIFE))
    assert counted(run) == (0.5, 1)
