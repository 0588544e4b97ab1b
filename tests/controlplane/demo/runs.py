"""A finished demo run, played at the wire."""

import msgspec

from apps.buffer.admit import admit_groups
from apps.evaluation.plan import plan_evaluations
from apps.rewards.score import score_new
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.training.models import LearnerStep
from tests.apps.checkpoints.test_retain import make_step
from tests.apps.factories import CONFIG, at, claim, make_outcome, play, record, running
from wire.store import FolderStore

DEMO = msgspec.structs.replace(CONFIG, evaluation_every=0, grpo_steps=3)


def finished_demo(store: FolderStore, name: str = "demo", *, grpo_steps: int = 3) -> Run:
    """Solved of the two held-out tasks: none at the start, one after two SFT steps, both after the GRPO steps."""
    run = running(DEMO, name=name)
    play(run, ["solved", "unsolved"])
    score_new(run)
    admit_groups(run, live_versions={0})
    _evaluate(run, set())
    _step(run, store, 1, "sft")
    _step(run, store, 2, "sft")
    _evaluate(run, {"family-0"})
    for version in range(3, 3 + grpo_steps):
        _step(run, store, version, "grpo")
    run.end_training("all done")
    _evaluate(run, {"family-0", "family-1"})
    run.end("finished", at(100))
    return run


def _step(run: Run, store: FolderStore, version: int, kind: str) -> None:
    made = make_step(run, store, version)
    LearnerStep.objects.filter(pk=made.pk).update(kind=kind, finished_at=at(30 * version))
    run.take_version(version)


def _evaluate(run: Run, solved: set[str]) -> None:
    """Tries of tasks of these families are solved."""
    plan_evaluations(run, run.config, now=at(1))
    while claims := claim(run, versions=range(100)):
        rollouts = Rollout.objects.in_bulk([one.rollout_id for one in claims])
        families = {one: rollouts[one.rollout_id].group.task_version.task.family for one in claims}
        verdicts = {one: "solved" if families[one] in solved else "unsolved" for one in claims}
        record(run, [make_outcome(one, run.pk, verdicts[one], version=one.policy_version) for one in claims])
    plan_evaluations(run, run.config, now=at(2))
