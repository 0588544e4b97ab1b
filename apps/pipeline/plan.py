"""Which tries come next: reference traces first, then groups of training tasks, not too far ahead of the learner."""

import random

from apps.buffer.cut import batch_open
from apps.difficulty.rates import recent_rates
from apps.pipeline.learn import warm_evaluation_pending
from apps.rollouts import states as rollout_states
from apps.rollouts.models import Group
from apps.rollouts.plan import plan_groups
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasks.curriculum import Candidate, choose
from apps.tasks.models import TaskVersion
from apps.training.lease import has_learner
from apps.training.models import live_steps


def plan_rollouts(run: Run, config: RunConfig) -> int:
    """The number of groups planned."""
    if not run.dispatching or run.training_ended or run.kind != "training":
        return 0
    if live_steps(run, "sft") < config.sft_steps:
        return _plan_traces(run, config)
    room = room_ahead(run, config)
    if room <= 0 or warm_evaluation_pending(run, config) or not has_learner(run):
        return 0
    return len(plan_groups(run, _next_tasks(run, config, room), purpose="train", size=config.group_size))


def room_ahead(run: Run, config: RunConfig) -> int:
    """Groups that may be planned: within the admission bound of the staleness, and never past the last step."""
    waiting = (
        Group.objects.of(run)
        .filter(
            purpose="train", state__in=[rollout_states.OPEN, rollout_states.COMPLETE, rollout_states.GROUP_ADMITTED]
        )
        .count()
    )
    in_step = int(batch_open(run))
    left = config.grpo_steps - live_steps(run, "grpo") - in_step
    ahead = min(config.max_staleness + 1 - in_step, left)
    return ahead * config.groups_per_step - waiting


def _plan_traces(run: Run, config: RunConfig) -> int:
    if Group.objects.of(run).filter(purpose="reference").exists():
        return 0
    by_family: dict[str, list[TaskVersion]] = {}
    for task in run.task_set.versions("train"):
        by_family.setdefault(task.task.family, []).append(task)
    tasks = [task for family in sorted(by_family) for task in by_family[family][: config.sft_traces_per_family]]
    return len(plan_groups(run, tasks, purpose="reference", size=1, script="reference"))


def _next_tasks(run: Run, config: RunConfig, count: int) -> list[TaskVersion]:
    tasks = {task.pk: task for task in run.task_set.versions("train")}
    rates = recent_rates(run)
    candidates = [
        Candidate(
            task_id=pk,
            family=task.task.family,
            successes=rates[pk].solved if pk in rates else 0,
            trials=rates[pk].tries if pk in rates else 0,
        )
        for pk, task in tasks.items()
    ]
    planned = Group.objects.of(run).filter(purpose="train").count()
    rng = random.Random(f"{config.seed}:{planned}")
    return [tasks[chosen] for chosen in choose(candidates, count, rng)]
