"""Rows for the tests of the API, made the way that the stages make them."""

import msgspec
from django.test import Client
from django.utils import timezone

from apps.accounts.models import ApiToken, Membership, Project, User
from apps.fleet.models import Endpoint
from apps.policies.models import Policy
from apps.rewards.score import score_new
from apps.rollouts.claim import Claim, claim_rollouts
from apps.rollouts.plan import plan_groups
from apps.runs.config import RunConfig
from apps.runs.launch import launch_run
from apps.runs.models import Run
from apps.tasks.models import Task, TaskSet, TaskVersion
from apps.trajectories.record import record_segment
from apps.trajectories.store import object_store
from sandbox_worker.messages import Check, Ending, GradeReport, Outcome, Phases, ResourceUse, Round


def make_project(slug: str) -> Project:
    return Project.objects.create(slug=slug, name=slug.title())


def make_user(name: str, role: str = "", project: Project | None = None) -> User:
    user = User.objects.create_user(name)
    if role:
        Membership.objects.create(project=project or Project.default(), user=user, role=role)
    return user


def client_of(user: User) -> Client:
    """Speaks to the API with a token of the user."""
    _, text = ApiToken.issue(user, "tests")
    return Client(headers={"Authorization": f"Bearer {text}"})


def make_task(
    name: str, family: str = "count-lines", *, project: Project | None = None, state: str = "admitted"
) -> TaskVersion:
    task = Task.objects.create(project=project or Project.default(), name=name, family=family)
    return TaskVersion.objects.create(
        task=task,
        number=1,
        digest="d" * 64,
        key=f"tasks/{name}.tar",
        instruction="Count them.",
        round_limit=2,
        state=state,
    )


def make_task_set(project: Project | None = None, name: str = "basics") -> TaskSet:
    """Two tasks to train on, one held out, one of an unseen family."""
    project = project or Project.default()
    entries = [
        (make_task(f"{name}-{number}", family, project=project), split)
        for number, (family, split) in enumerate(
            [("count-lines", "train"), ("count-lines", "train"), ("count-lines", "held-out"), ("sort-words", "unseen")]
        )
    ]
    return TaskSet.freeze(project, name, entries)


def make_policy(project: Project | None = None, name: str = "small") -> Policy:
    return Policy.objects.create(project=project or Project.default(), name=name, state="ready", digest="e" * 64)


def make_run(project: Project | None = None, *, name: str = "first", task_set: TaskSet | None = None) -> Run:
    """Queued, as launched."""
    project = project or Project.default()
    Endpoint.objects.get_or_create(name="embedded", defaults={"url": "http://127.0.0.1:8100"})
    task_set = task_set or make_task_set(project, f"set of {name}")
    return launch_run(project, None, name, task_set, make_policy(project, f"policy of {name}"), RunConfig())


def play(run: Run, verdicts: list[str], *, purpose: str = "train", score: bool = True) -> list[int]:
    """Tries of one task, recorded with these verdicts (none: infra broke it); the rollouts."""
    task = run.task_set.versions("train")[0]
    plan_groups(run, [task], purpose=purpose, size=len(verdicts))
    now = timezone.now()
    claims = claim_rollouts(run, limit=len(verdicts), live_versions={0}, now=now, revision=1)
    data = b"".join(
        msgspec.json.encode(make_outcome(run, claim, verdict)) + b"\n"
        for claim, verdict in zip(claims, verdicts, strict=True)
    )
    key = f"outcomes/{run.pk}/{claims[0].rollout_id}.jsonl"
    object_store().put(key, data)
    record_segment(run, key, data, sha256="", cap=5, now=now)
    if score:
        score_new(run)
    return [claim.rollout_id for claim in claims]


def make_outcome(run: Run, claim: Claim, verdict: str) -> Outcome:
    broken = verdict == "none"
    one = Round(
        index=1, message="wc -l", action="wc -l lines.txt", observation="3", output="3", output_bytes=1, exit_code=0,
        end="exited", truncated=False, started_at=1.0, model_seconds=0.1, box_seconds=0.1, policy_version=0,
        prompt_ids=(1, 2), sampled_ids=(3, 4, 5), logprobs=(-0.1, -0.2, -0.3),
    )  # fmt: skip
    return Outcome(
        rollout_id=claim.rollout_id,
        run_id=run.pk,
        attempt=claim.attempt,
        fence=claim.fence,
        incarnation="w1",
        ending=Ending(kind="infra", detail="box", evidence="no disk") if broken else Ending(kind="submitted"),
        rounds=(one,),
        grade=GradeReport(
            verdict="solved" if verdict == "solved" else "none" if broken else "unsolved",
            score=None if broken else float(verdict == "solved"),
            checks=() if broken else (Check(name="counts", passed=verdict == "solved"),),
        ),
        phases=Phases(waited=0.1, start=0.1, agent=1.0, grade=0.5),
        use=ResourceUse(boxes_started=2, prompt_tokens=2, sampled_tokens=3),
        started_at=1_700_000_000.0,
        finished_at=1_700_000_002.0,
    )
