"""Starts a training that goes through every phase in some seconds."""

from apps.accounts.models import Project
from apps.policies.models import Policy
from apps.runs.config import RunConfig
from apps.runs.launch import launch_run
from apps.tasks.models import TaskSet

SFT_STEPS, GRPO_STEPS = 2, 4
CONFIG = RunConfig(
    group_size=4,
    groups_per_step=2,
    grpo_steps=GRPO_STEPS,
    sft_steps=SFT_STEPS,
    sft_batch=2,
    sft_traces_per_family=1,
    round_tokens=10,
    context_tokens=1500,
    evaluation_tries=4,
    interim_tries=2,
    evaluation_every=2,
    resumable_every=3,
    concurrency=16,
)


def act(name: str) -> int:
    """The run. Its reward is a coin: a random policy solves nothing, and equal rewards make no step."""
    task_set, policy = TaskSet.objects.get(name="chaos"), Policy.objects.get(name="tiny")
    run = launch_run(Project.default(), None, name, task_set, policy, CONFIG, formula="coin@1")
    return int(run.pk)
