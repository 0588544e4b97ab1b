"""Turn claims into the requests that a sandbox worker understands."""

from collections.abc import Iterable

from apps.rollouts.claim import Claim
from apps.rollouts.models import Group
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasks.models import AGENT_SECONDS, VERIFIER_SECONDS, TaskVersion
from sandbox_worker.messages import (
    PolicyCall,
    ResourceProfile,
    RolloutLimits,
    RolloutRequest,
    Sampling,
    ScriptedCall,
)


def build_requests(run: Run, config: RunConfig, claims: Iterable[Claim]) -> list[RolloutRequest]:
    """Requests in the order of the claims."""
    claims = list(claims)
    wanted = {claim.group_id for claim in claims}
    groups = {group.pk: group for group in Group.objects.filter(pk__in=wanted).select_related("task_version")}
    return [_request(run, config, claim, groups[claim.group_id]) for claim in claims]


def _request(run: Run, config: RunConfig, claim: Claim, group: Group) -> RolloutRequest:
    task = group.task_version
    return RolloutRequest(
        rollout_id=claim.rollout_id,
        run_id=run.pk,
        attempt=claim.attempt,
        fence=claim.fence,
        deadline=claim.deadline.timestamp(),
        task_key=task.key,
        task_digest=task.digest,
        policy=_policy(run, config, claim, group),
        limits=_limits(config, group),
        profile=_profile(task),
        allowed_hosts=tuple(task.settings.get("allowed_hosts", ())),
    )


def _policy(run: Run, config: RunConfig, claim: Claim, group: Group) -> PolicyCall | ScriptedCall:
    tokenizer = run.policy.prefix if run.policy else ""
    if group.script == "reference":
        return ScriptedCall(script="reference", tokenizer_prefix=tokenizer if group.purpose == "reference" else "")
    if group.script:
        return ScriptedCall(script="nothing")
    if run.endpoint is None or claim.policy_version is None:
        raise ValueError(f"run {run.pk} has no endpoint for rollout {claim.rollout_id}")
    return PolicyCall(
        url=run.endpoint.url,
        model=run.served_name(claim.policy_version),
        version=claim.policy_version,
        tokenizer_prefix=tokenizer,
        # A later attempt of the same try draws anew: the same seed would only repeat what broke.
        sampling=Sampling(
            temperature=config.temperature, seed=config.seed * 1_000_003 + claim.rollout_id * 31 + claim.attempt
        ),
    )


def _limits(config: RunConfig, group: Group) -> RolloutLimits:
    task = group.task_version
    agent_seconds = float(task.settings.get("agent_seconds", AGENT_SECONDS))
    return RolloutLimits(
        rounds=task.round_limit,
        context_tokens=config.context_tokens,
        round_tokens=config.round_tokens,
        # The author of a script chose its commands for the task's own time; only a policy is kept from wasting it.
        command_seconds=agent_seconds if group.script else config.command_seconds,
        agent_seconds=agent_seconds,
        verifier_seconds=float(task.settings.get("verifier_seconds", VERIFIER_SECONDS)),
    )


def _profile(task: TaskVersion) -> ResourceProfile:
    given = {key: task.settings[key] for key in ("cpus", "memory_bytes", "disk_bytes") if key in task.settings}
    return ResourceProfile(**given)
