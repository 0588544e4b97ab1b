"""The figures of the loop benchmark, read from the database of a finished demo."""

import os
import sys
from datetime import datetime

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
django.setup()

from apps.pipeline.idle import idle_shares  # noqa: E402
from apps.rollouts.models import Rollout  # noqa: E402
from apps.runs.models import Run  # noqa: E402
from apps.training.models import LearnerStep  # noqa: E402
from apps.trajectories.models import Trajectory  # noqa: E402
from benchmarks.result import Measurement, Result  # noqa: E402


def measure() -> None:
    """Read the figures from the database of a finished demo."""
    controls = Run.objects.filter(kind="admission").latest("id")
    run = Run.objects.filter(kind="training").latest("id")
    Result("loop", [*_scripted(controls), *_sampling(run), *_learning(run), *_waiting(run)]).write()


def _scripted(run: Run) -> list[Measurement]:
    rows = list(Rollout.objects.of(run).exclude(finished_at=None).values_list("claimed_at", "finished_at", "attempt"))
    seconds = _span([row[0] for row in rows if row[0]], [row[1] for row in rows if row[1]])
    again = sum(row[2] - 1 for row in rows)
    rate = len(rows) / seconds
    return [Measurement("scripted rollouts, two boxes each", "bubblewrap", rate, "1/s", len(rows), failures=again)]


def _sampling(run: Run) -> list[Measurement]:
    tries = Trajectory.objects.of(run).filter(rollout__group__purpose="train", counts=True)
    rows = list(tries.values_list("started_at", "finished_at", "sampled_tokens"))
    seconds = _span([row[0] for row in rows], [row[1] for row in rows])
    tokens = sum(row[2] for row in rows)
    return [
        Measurement("sampled tokens, GRPO phase", "embedded server", tokens / seconds, "tokens/s", len(rows)),
        Measurement("training rollouts, GRPO phase", "embedded server", len(rows) / seconds, "1/s", len(rows)),
    ]


def _learning(run: Run) -> list[Measurement]:
    steps = [step.parsed_metrics() for step in LearnerStep.objects.of(run).live().filter(kind="grpo")]
    found = [metrics for metrics in steps if metrics is not None]
    seconds = sum(metrics.seconds for metrics in found)
    tokens = sum(metrics.trained_tokens for metrics in found)
    return [Measurement("trained tokens, while stepping", "embedded learner", tokens / seconds, "tokens/s", len(found))]


def _waiting(run: Run) -> list[Measurement]:
    found = idle_shares(run)
    if found is None:
        return []
    return [
        Measurement("learner waited for data", "GRPO phase", found.learner_waited, "share of wall time", 1),
        Measurement("sampler waited for weights", "GRPO phase", found.sampler_waited, "share of wall time", 1),
    ]


def _span(starts: list[datetime], ends: list[datetime]) -> float:
    return (max(ends) - min(starts)).total_seconds()


if __name__ == "__main__":
    measure()
    sys.exit(0)
