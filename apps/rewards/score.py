"""Every graded trajectory of a run gets its reward, once a formula."""

from typing import Literal

from apps.rewards.formula import GradedTry, RewardError, formula
from apps.rewards.models import Reward
from apps.runs.models import Run
from apps.trajectories.models import Grade, Trajectory

BATCH = 2000
VERDICTS: dict[str, Literal["solved", "unsolved", "none"]] = {
    "solved": "solved",
    "unsolved": "unsolved",
    "none": "none",
}


def score_new(run: Run) -> int:
    """Reward what has a verdict and no reward under the run's formula yet; the number rewarded."""
    rule = formula(run.formula)
    seed = run.config.seed
    unscored = Grade.objects.filter(
        trajectory__in=Trajectory.objects.of(run).with_verdict().exclude(rewards__formula=run.formula)
    ).select_related("trajectory")
    unscored = unscored.order_by("trajectory_id")[:BATCH]
    rewards = []
    for grade in unscored:
        graded = GradedTry(
            trajectory_id=grade.trajectory_id,
            verdict=VERDICTS[grade.verdict],
            score=grade.score,
            rounds=grade.trajectory.rounds,
            sampled_tokens=grade.trajectory.sampled_tokens,
            seed=seed,
        )
        try:
            value = rule.reward(graded)
        except RewardError as error:
            # The worker checks the range before it sends: a score that comes here is our own fault, and is loud.
            raise RewardError(f"run {run.pk}, rollout {grade.trajectory.rollout_id}: {error}") from error
        rewards.append(Reward(trajectory_id=grade.trajectory_id, run=run, formula=run.formula, value=value))
    Reward.objects.bulk_create(rewards, ignore_conflicts=True)
    return len(rewards)
