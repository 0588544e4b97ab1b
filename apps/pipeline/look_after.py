"""What a pass looks after on the side: old checkpoints, and what a person should know."""

from datetime import datetime

from django.db.models import Count

from apps.alerts.models import Alert
from apps.buffer.ledger import ledger
from apps.checkpoints.models import Checkpoint
from apps.checkpoints.publish import Published, publish_versions
from apps.checkpoints.retain import retain_checkpoints, sweep_leftovers
from apps.evaluation.plan import best_version, pinned_versions
from apps.fleet.models import Worker
from apps.pipeline.learn import all_flat, step_trouble
from apps.pipeline.waiting import no_learner, no_sandbox_worker
from apps.rollouts import states as rollout_states
from apps.rollouts.expire import hopeless_attempts, lose_attempts
from apps.rollouts.models import BROKE_ON_US, Attempt, Rollout
from apps.runs.models import Run
from apps.training.lease import wants_learner
from apps.training.rewind import resume_point
from apps.trajectories.record import sweep_segments
from wire.store import Store

INFRA_WINDOW = 200
INFRA_LIMIT = 0.2


def expire(run: Run, store: Store, *, cap: int, now: datetime) -> int:
    """Give up on attempts that cannot come back; the number lost."""
    hopeless = hopeless_attempts(run, now=now)
    if not hopeless:
        return 0
    # A worker writes the outcome, then says that it holds the try no more: look into the store after having heard that.
    sweep_segments(run, store, cap=cap, now=now)
    return lose_attempts(run, hopeless, cap=cap, now=now)


def publish(run: Run, *, now: datetime) -> Published:
    """Have served what rollouts need."""
    published = publish_versions(run, {run.policy_version} | pinned_versions(run), now=now)
    Alert.settle(run, "publish", published.problem, now, severity="broken")
    return published


def retain(run: Run, store: Store) -> int:
    """Retire checkpoints that nobody needs; the number retired."""
    sweep_leftovers(run, store)
    if Checkpoint.objects.of(run).stored().count() <= 3:
        return 0
    in_flight = (
        Rollout.objects.of(run).in_flight().exclude(policy_version=None).values_list("policy_version", flat=True)
    )
    pinned = pinned_versions(run) | {version for version in in_flight if version is not None}
    return retain_checkpoints(run, store, pinned=pinned, best=best_version(run), resume=resume_point(run))


def watch(run: Run, *, now: datetime) -> None:
    """Raise what is wrong, clear what is over."""
    missing_worker = no_sandbox_worker(now) if Rollout.objects.of(run).undone().exists() else ""
    Alert.settle(run, "no-sandbox-worker", missing_worker, now, severity="broken")
    Alert.settle(run, "no-learner", no_learner(now) if wants_learner(run) else "", now, severity="broken")
    Alert.settle(run, "many-learners", _many_learners(run, now), now, severity="broken")
    Alert.settle(run, "learner-store", step_trouble(run), now, severity="broken")
    Alert.settle(run, "all-flat", all_flat(run, run.config), now)
    Alert.settle(run, "policy-server", _no_endpoint(run), now, severity="broken")
    Alert.settle(run, "infra-rate", _infra(run), now)
    parked = Rollout.objects.of(run).filter(state=rollout_states.PARKED).count()
    Alert.settle(run, "parked", _parked(parked), now)


def check_ledger(run: Run, *, now: datetime) -> bool:
    """True if the ledger is exact; else an alert says by how much it is not."""
    found = ledger(run)
    Alert.settle(run, "ledger", "; ".join(found.problems), now, severity="broken")
    return found.exact


def _parked(many: int) -> str:
    if not many:
        return ""
    return f"{many:,} {'rollout is' if many == 1 else 'rollouts are'} parked: every attempt broke."


def _many_learners(run: Run, now: datetime) -> str:
    found = Worker.objects.of_kind("learner").ready(now).count() if wants_learner(run) else 0
    if found < 2:
        return ""
    return (
        f"{found} learners answer, and only one may: the optimiser state is in the memory of one, and each step that "
        "another takes sends the run back to its last resume point. Stop all but one."
    )


def _no_endpoint(run: Run) -> str:
    endpoint = run.endpoint
    if endpoint is None or endpoint.healthy or endpoint.checked_at is None:
        return ""
    return f"The policy server at {endpoint.url} does not answer: {endpoint.error}"


def _infra(run: Run) -> str:
    newest = Attempt.objects.of(run).ended().playable().order_by("-id").values("pk")[:INFRA_WINDOW]
    counted = Attempt.objects.filter(pk__in=newest).aggregate(n=Count("pk"), broken=Count("pk", filter=BROKE_ON_US))
    n, broken = counted["n"], counted["broken"]
    if n < 20 or broken / n <= INFRA_LIMIT:
        return ""
    return (
        f"{broken} of the last {n} attempts broke on our side ({broken / n:.0%}); what broke at its task is left out."
    )
