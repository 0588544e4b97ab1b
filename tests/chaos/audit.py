"""Whether everything that happened in a run adds up: rows against rows, and rows against what lies in the store."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from apps.buffer.ledger import ledger
from apps.rollouts.dispatch import outcome_prefix
from apps.rollouts.models import Attempt, Rollout
from apps.runs.models import Run
from apps.training.models import LearnerStep
from apps.trajectories.models import Trajectory
from apps.trajectories.store import object_store
from sandbox_worker.messages import decode_segment

Place = tuple[int, int]
"""Rollout and fence."""


@dataclass(frozen=True)
class Audit:
    state: str
    failure: str
    trajectories: list[int]
    versions: list[int]
    """Of all steps ever begun, in the order of their making."""
    steps: dict[str, int]
    attempts: dict[str, int]
    parked: int
    problems: list[str]
    """One sentence for whatever does not add up."""


def act(run_id: str) -> dict[str, object]:
    run = Run.objects.get(pk=int(run_id))
    steps = LearnerStep.objects.of(run).order_by("id")
    found = Audit(
        state=run.state,
        failure=run.failure,
        trajectories=list(Trajectory.objects.of(run).order_by("pk").values_list("pk", flat=True)),
        versions=list(steps.values_list("version", flat=True)),
        steps=dict(Counter(f"{kind} {state}" for kind, state in steps.values_list("kind", "state"))),
        attempts=dict(Counter(Attempt.objects.of(run).values_list("state", flat=True))),
        parked=Rollout.objects.of(run).filter(state="parked").count(),
        problems=[*ledger(run).problems, *_miscounted(run), *_apart_from_the_store(run)],
    )
    return asdict(found)


def _miscounted(run: Run) -> Iterator[str]:
    counting = Counter(Trajectory.objects.of(run).filter(counts=True).values_list("rollout_id", flat=True))
    for rollout, state in Rollout.objects.of(run).values_list("pk", "state"):
        if counting[rollout] != int(state == "recorded"):
            yield f"rollout {rollout} is {state} and counts {counting[rollout]} times"


def _apart_from_the_store(run: Run) -> Iterator[str]:
    """Every outcome that a worker ever finished has its row, and every row its outcome."""
    rows = Attempt.objects.of(run).values_list("rollout_id", "fence", "state")
    states: dict[Place, str] = {(rollout, fence): state for rollout, fence, state in rows}
    written = _written(run)
    for place, count in written.items():
        if count > 1:
            yield f"rollout and fence {place} were played {count} times"
        if place not in states:
            yield f"rollout and fence {place} were played, and never claimed"
        elif states[place] != "recorded":
            yield f"rollout and fence {place} were finished, and are {states[place]}"
    for place, state in states.items():
        if state == "recorded" and place not in written:
            yield f"rollout and fence {place} count, and nothing of them is in the store"


def _written(run: Run) -> Counter[Place]:
    store = object_store()
    return Counter(
        (outcome.rollout_id, outcome.fence)
        for key in store.list(outcome_prefix(run))
        for _, _, outcome in decode_segment(store.get(key))
    )
