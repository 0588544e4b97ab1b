"""Make a run and put it in the queue, or say which field stands in the way; nothing half-made is left."""

from collections import Counter

from django.db import IntegrityError, transaction

from apps.accounts.models import Project, User
from apps.fleet.models import Endpoint
from apps.lifecycle.announce import hint
from apps.policies.models import Policy
from apps.runs import states
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasks import states as task_states
from apps.tasks.models import TaskSet


class LaunchError(Exception):
    """A run that cannot be started as asked."""

    def __init__(self, field: str, value: object, way_out: str) -> None:
        super().__init__(f"{field} = {value!r}: {way_out}")
        self.field = field
        self.value = value
        self.way_out = way_out


class KeyReusedError(Exception):
    """The idempotency key was used for another request."""

    def __init__(self, key: str, run: Run) -> None:
        super().__init__(f"The idempotency key {key!r} started run {run.pk} with another body. Use a new key.")
        self.run = run


def launch_run(
    project: Project,
    user: User | None,
    name: str,
    task_set: TaskSet,
    policy: Policy | None,
    config: RunConfig,
    *,
    kind: str = "training",
    formula: str = "all-or-nothing@1",
    endpoint: Endpoint | None = None,
    idempotency_key: str = "",
    request_digest: str = "",
) -> Run:
    """A queued run. The same user with the same idempotency key gets the run of the first call, marked `replayed`.

    request_digest: of what was asked; with the same key it has to be the same. Raises LaunchError, KeyReusedError."""
    if earlier := _earlier(user, idempotency_key, request_digest):
        return earlier
    _check_name(name)
    _check_task_set(task_set, kind, config)
    if kind != "admission":
        _check_policy(policy, task_set)
        endpoint = endpoint or _only_endpoint()
    if kind == "training" and config.grpo_steps == 0 and config.sft_steps == 0:
        raise LaunchError(
            "grpo_steps", 0, "A training needs learner steps: set grpo_steps or sft_steps, or evaluate only."
        )
    try:
        with transaction.atomic():
            run = Run.objects.create(
                project=project,
                name=name.strip(),
                kind=kind,
                task_set=task_set,
                policy=policy,
                endpoint=endpoint,
                formula=formula,
                created_by=user,
                idempotency_key=idempotency_key,
                request_digest=request_digest,
            )
            actor = user.username if user else "assay"
            run.revise(config, by=actor, reason="launched")
            run.move(states.QUEUED, actor=actor)
            hint(run.stream())
    except IntegrityError:  # the same request, at the same time
        if earlier := _earlier(user, idempotency_key, request_digest):
            return earlier
        raise
    return run


def _earlier(user: User | None, key: str, digest: str) -> Run | None:
    run = Run.objects.filter(created_by=user, idempotency_key=key).first() if key else None
    if run is None:
        return None
    if run.request_digest != digest:
        raise KeyReusedError(key, run)
    run.replayed = True
    return run


def _check_name(name: str) -> None:
    if not name.strip():
        raise LaunchError("name", name, "Give the run a name.")
    if len(name) > 120:
        raise LaunchError("name", name, "A name has at most 120 characters.")


def _check_task_set(task_set: TaskSet, kind: str, config: RunConfig) -> None:
    entries = task_set.entries.select_related("task_version")
    if not entries.exists():
        raise LaunchError("task_set", str(task_set), "This task set is empty. Make a new version with tasks in it.")
    if kind == "admission":
        return
    if problems := _unproven(Counter(entry.task_version.state for entry in entries)):
        raise LaunchError("task_set", str(task_set), " ".join(problems))
    splits = {entry.split for entry in entries}
    if kind == "training" and "train" not in splits:
        raise LaunchError("task_set", str(task_set), "It has no tasks in the split 'train', so nothing to learn from.")
    if not splits & {"held-out", "unseen"}:
        raise LaunchError(
            "task_set", str(task_set), "It has no held-out tasks, so nothing would show whether it helped."
        )


def _unproven(counts: Counter[str]) -> list[str]:
    """What is to be done about the tasks that a run may not use."""
    refused = sum(counts[state] for state in task_states.REFUSED)
    waiting = counts.total() - refused - sum(counts[state] for state in task_states.USABLE)
    problems = []
    if waiting:
        problems.append(
            f"{waiting} of its {counts.total()} tasks: not proven yet (solution passes, doing nothing fails). "
            "Wait for their controls to finish; `manage.py import_tasks` plays them where none run."
        )
    if refused:
        problems.append(
            f"{refused} of its {counts.total()} tasks: rejected, quarantined or retired. "
            "Make a new version of the set without them."
        )
    return problems


def _check_policy(policy: Policy | None, task_set: TaskSet) -> None:
    if policy is None:
        raise LaunchError("policy", None, "Choose the policy to start from.")
    if policy.project_id != task_set.project_id:
        raise LaunchError("policy", policy.name, f"It belongs to another project than the task set {task_set}.")
    if policy.state != "ready":
        raise LaunchError("policy", policy.name, f"This policy is {policy.state}. Import it again, under another name.")


def _only_endpoint() -> Endpoint:
    endpoint = Endpoint.objects.order_by("id").first()
    if endpoint is None:
        raise LaunchError("endpoint", None, "No policy endpoint is known. Start one with `manage.py up`.")
    return endpoint
