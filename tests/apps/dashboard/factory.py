"""A training run as the pipeline would leave it: real rows, real records in the store, a ledger that balances."""

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec
from django.db.models import Sum
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.buffer.models import Batch, Sample
from apps.checkpoints.models import Checkpoint
from apps.evaluation.collect import evaluation_tries
from apps.evaluation.measure import measure
from apps.evaluation.models import Evaluation
from apps.fleet.models import Endpoint
from apps.lifecycle.announce import announce
from apps.rewards.models import Reward
from apps.rollouts.models import Attempt, Group, Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasks.models import TaskSet, TaskVersion
from apps.training.models import LearnerStep
from apps.trajectories.models import CommandEnds, Grade, Segment, Trajectory
from apps.trajectories.store import object_store
from learner.messages import StepMetrics
from sandbox_worker.messages import Outcome
from tests.apps.dashboard.alive import alive
from tests.apps.dashboard.outcomes import make_outcome
from tests.apps.dashboard.people import TWO_ROUNDS, make_endpoint, make_policy, make_task_set
from wire.store import Store


@dataclass
class Builder:
    """Fills one run, group by group."""

    run: Run
    config: RunConfig
    store: Store
    rng: Random
    began: datetime
    lines: list[bytes] = field(default_factory=list)
    offset: int = 0
    key: str = ""

    def chance(self, task: TaskVersion, version: int) -> float:
        """Of solving: a jump with the warm start, then a slow rise; two rounds are harder."""
        warm = self.config.sft_steps
        after = 0.04 if version < 1 else 0.04 + 0.32 * min(1.0, version / max(1, warm))
        grown = after + 0.42 * (1 - math.exp(-max(0, version - warm) / 22))
        return (
            grown * (0.62 if task.task.family in TWO_ROUNDS else 1.0) * (0.8 if "rename" in task.task.family else 1.0)
        )

    def play(self, group: Group, version: int | None, at: datetime, *, forced: bool | None = None) -> list[Trajectory]:
        """Every try of a group; one in sixty breaks first and is tried again."""
        made = []
        task = group.task_version
        for index in range(group.size):
            solved = forced if forced is not None else self.rng.random() < self.chance(task, version or 0)
            rollout = Rollout.objects.create(
                run=self.run,
                group=group,
                index=index,
                state="recorded",
                policy_version=version,
                planned_at=at,
                claimed_at=at,
            )
            attempts: list[bool | None] = [None, solved] if self.rng.random() < 1 / 60 else [solved]
            for number, result in enumerate(attempts, start=1):
                made.append(self.record(rollout, task, number, result, version, at + timedelta(seconds=number * 2)))
            rollout.attempt = rollout.fence = len(attempts)
            rollout.finished_at = at + timedelta(seconds=4)
            rollout.save()
        return made

    def record(
        self, rollout: Rollout, task: TaskVersion, number: int, solved: bool | None, version: int | None, at: datetime
    ) -> Trajectory:
        rounds = task.round_limit if solved or self.rng.random() < 0.7 else 1
        outcome = make_outcome(
            self.rng,
            rollout_id=rollout.pk,
            run_id=self.run.pk,
            solved=solved,
            rounds=rounds,
            version=version,
            started_at=at.timestamp(),
            attempt=number,
            fence=number,
            digest=task.digest,
        )
        return self.keep(rollout, outcome, at)

    def keep(self, rollout: Rollout, outcome: Outcome, at: datetime) -> Trajectory:
        """The rows that a recorded attempt becomes."""
        line = msgspec.json.encode(outcome) + b"\n"
        ended = datetime.fromtimestamp(outcome.finished_at, tz=UTC)
        attempt = Attempt.objects.create(
            run=self.run,
            rollout=rollout,
            number=outcome.attempt,
            fence=outcome.fence,
            state="recorded",
            policy_version=rollout.policy_version,
            incarnation=outcome.incarnation,
            claimed_at=at,
            ended_at=ended,
            ending_kind=outcome.ending.kind,
            ending_detail=outcome.ending.detail,
        )
        versions = [one.policy_version for one in outcome.rounds if one.policy_version is not None]
        trajectory = Trajectory.objects.create(
            attempt=attempt,
            rollout=rollout,
            run=self.run,
            segment_id=self.key,
            offset=self.offset,
            length=len(line),
            counts=outcome.ending.kind != "infra",
            ending_kind=outcome.ending.kind,
            ending_detail=outcome.ending.detail,
            rounds=len(outcome.rounds),
            prompt_tokens=outcome.use.prompt_tokens,
            sampled_tokens=outcome.use.sampled_tokens,
            oldest_version=min(versions, default=None),
            newest_version=max(versions, default=None),
            waited_seconds=outcome.phases.waited,
            start_seconds=outcome.phases.start,
            agent_seconds=outcome.phases.agent,
            grade_seconds=outcome.phases.grade,
            sandbox_seconds=outcome.use.sandbox_seconds,
            boxes_started=outcome.use.boxes_started,
            box_failures=outcome.use.box_failures,
            started_at=at,
            finished_at=ended,
            recorded_at=ended,
        )
        grade = outcome.grade
        checks = msgspec.to_builtins(grade.checks)
        Grade.objects.create(
            trajectory=trajectory, verdict=grade.verdict, score=grade.score, checks=checks, error=grade.error
        )
        self.count_ends(outcome)
        self.lines.append(line)
        self.offset += len(line)
        return trajectory

    def count_ends(self, outcome: Outcome) -> None:
        for end, many in Counter(one.end for one in outcome.rounds if one.end).items():
            known, _ = CommandEnds.objects.get_or_create(run=self.run, end=end, defaults={"count": 0})
            known.count += many
            known.save()

    def open_segment(self) -> None:
        self.key = f"outcomes/{self.run.pk}/factory/{self.run.segments.count()}.jsonl"
        self.lines, self.offset = [], 0
        Segment.objects.create(key=self.key, run=self.run, sha256="0" * 64, outcomes=0, recorded=0)

    def close_segment(self) -> None:
        self.store.put(self.key, b"".join(self.lines))

    def evaluate(self, version: int, why: str, tries: int, at: datetime) -> None:
        for suite in ("held-out", "unseen"):
            evaluation = Evaluation.objects.create(
                run=self.run,
                version=version,
                suite=suite,
                tries=tries,
                why=why,
                state="running",
                planned_at=at,
                started_at=at,
            )
            for task in self.run.task_set.versions(suite):
                group = Group.objects.create(
                    run=self.run,
                    task_version=task,
                    purpose="evaluation",
                    suite=suite,
                    pinned_version=version,
                    size=tries,
                    state="complete",
                )
                self.play(group, version, at)
            played = evaluation_tries(self.run, version, suite)
            measured = measure(played, planned=len(played))
            evaluation.keep_result(measured, at + timedelta(seconds=20))
            evaluation.move(
                "finished", reason=f"{suite} at version {version}: {100 * (evaluation.estimate or 0):.1f} %"
            )

    def warm_step(self, number: int, at: datetime) -> None:
        tokens = 420
        batch = Batch.objects.create(
            run=self.run, kind="sft", state="applied", base_version=number - 1, groups=16, sequences=16, tokens=tokens
        )
        self.step(batch, "sft", number, at, loss=2.1 * math.exp(-number / 6) + 0.25, tokens=tokens)

    def learn(self, number: int, groups: int, at: datetime) -> None:
        """One GRPO step on groups that the version before it, or the one before that, played."""
        base = number - 1
        tasks = list(self.run.task_set.versions("train"))
        batch = Batch.objects.create(
            run=self.run, kind="grpo", state="applied", base_version=base, groups=groups, sequences=0, tokens=0
        )
        played = max(self.config.sft_steps, base - self.rng.choice([0, 0, 1]))
        for task in self.rng.sample(tasks, groups):
            group = Group.objects.create(
                run=self.run, task_version=task, purpose="train", size=self.config.group_size, state="consumed"
            )
            self.admit(group, batch, played, base, at)
        used = Sample.objects.filter(batch=batch)
        sums = used.aggregate(tokens=Sum("tokens"), staleness=Sum("staleness"))
        batch.tokens, batch.sequences = sums["tokens"] or 0, used.count()
        batch.mean_staleness = (sums["staleness"] or 0) / max(1, used.count())
        batch.max_staleness = base - played
        batch.save()
        self.step(batch, "grpo", number, at, loss=0.02 * self.rng.gauss(0, 1), tokens=batch.tokens)

    def admit(self, group: Group, batch: Batch, played: int, base: int, at: datetime) -> None:
        made = self.play(group, played, at)
        counting = [one for one in made if one.counts]
        rewards = {one.pk: float(one.grade.verdict == "solved") for one in counting}
        Reward.objects.bulk_create(
            Reward(trajectory=one, run=self.run, formula=self.run.formula, value=rewards[one.pk]) for one in counting
        )
        flat = len(set(rewards.values())) < 2
        for one in made:
            reason = "infra" if not one.counts else "flat" if flat else ""
            Sample.objects.create(
                trajectory=one,
                run=self.run,
                group=group,
                state="discarded" if reason else "trained",
                reason=reason,
                tokens=one.sampled_tokens,
                oldest_version=one.oldest_version,
                batch=None if reason else batch,
                staleness=None if reason else base - played,
            )

    def step(self, batch: Batch, kind: str, number: int, at: datetime, *, loss: float, tokens: int) -> None:
        jitter = self.rng.gauss(0, 1)
        grpo = kind == "grpo"
        metrics = StepMetrics(
            loss=loss,
            grad_norm=0.35 + 0.6 * math.exp(-number / 20) + 0.05 * abs(jitter),
            entropy=0.28 + 0.4 * math.exp(-number / 25) + 0.01 * jitter,
            trained_tokens=tokens,
            sequences=batch.sequences,
            groups=batch.groups,
            flat_groups=min(batch.groups, max(0, round(batch.groups * (0.45 * math.exp(-number / 30) + 0.1))))
            if grpo
            else 0,
            single_groups=0,
            seconds=3.1 + 0.3 * abs(jitter),
            load_seconds=0.1,
            write_seconds=0.4,
            tokens_per_second=1450 + 60 * jitter,
            kl=0.0009 + 0.0003 * abs(jitter) if grpo else None,
            mismatch=0.0016 + 0.0002 * abs(jitter) if grpo else None,
            effective_sample=0.93 + 0.01 * jitter if grpo else None,
            truncated_fraction=0.0 if grpo else None,
            reward_mean=0.5 if grpo else None,
        )
        LearnerStep.objects.create(
            run=self.run,
            batch=batch,
            kind=kind,
            number=number,
            parent_version=number - 1,
            version=number,
            state="applied",
            fence=1,
            handed_at=at,
            sent_at=at,
            finished_at=at + timedelta(seconds=4),
            waited_seconds=2 + abs(jitter),
            metrics=msgspec.to_builtins(metrics),
        )
        Checkpoint.objects.create(
            run=self.run,
            version=number,
            parent=number - 1,
            kind=kind,
            prefix=f"checkpoints/{self.run.pk}/{number}-1",
            state="live" if number % 10 == 0 or number > self.config.sft_steps + 40 else "retired",
            made_at=at,
        )
        if number % 5 == 0:
            announce(self.run.stream(), "checkpoint.live", f"version {number}, {kind} step {number}")


def make_run(
    user: User,
    *,
    name: str = "warm-grpo-7",
    state: str = "running",
    config: RunConfig | None = None,
    task_set: TaskSet | None = None,
) -> Run:
    """A run with nothing in it."""
    project = Project.default()
    store = object_store()
    run = Run.objects.create(
        project=project,
        name=name,
        kind="training",
        task_set=task_set or make_task_set(project, store),
        policy=project.policies.first() or make_policy(project),
        formula="all-or-nothing@1",
        endpoint=Endpoint.objects.first() or make_endpoint(),
        state=state,
        created_by=user,
        started_at=None if state in ("draft", "queued") else timezone.now() - timedelta(minutes=34),
    )
    run.revise(
        config or RunConfig(sft_steps=14, grpo_steps=60, group_size=8, groups_per_step=4),
        by=user.username,
        reason="launched",
    )
    return run


def small_run(user: User) -> Run:
    """The same in little: a few steps on one task a family and split."""
    task_set = make_task_set(Project.default(), object_store(), train=1, held_out=1, unseen=1)
    return training_run(user, task_set=task_set, sft=2, grpo=3, every=3, group_size=4, groups=2)


def training_run(
    user: User,
    *,
    task_set: TaskSet | None = None,
    sft: int = 14,
    grpo: int = 45,
    every: int = 15,
    group_size: int = 8,
    groups: int = 4,
    seed: int = 7,
) -> Run:
    """Warm start, then GRPO, with evaluations at the start, after the warm start, in between, and one under way."""
    config = RunConfig(
        sft_steps=sft, grpo_steps=60, group_size=group_size, groups_per_step=groups, evaluation_every=every
    )
    run = make_run(user, config=config, task_set=task_set)
    began = timezone.now() - timedelta(minutes=32)
    total = sft + grpo
    builder = Builder(run, config, object_store(), Random(seed), began)
    builder.open_segment()
    announce(run.stream(), "run.running", "", {"actor": user.username})
    builder.evaluate(0, "first", 4, began)
    for number in range(1, total + 1):
        at = began + timedelta(minutes=30 * number / total)
        if number <= sft:
            builder.warm_step(number, at)
            if number == sft:
                builder.evaluate(number, "warm", 4, at)
        else:
            builder.learn(number, groups, at)
            if (number - sft) % every == 0 or number == total:
                builder.evaluate(number, "interim", 2, at)
    builder.close_segment()
    Run.objects.filter(pk=run.pk).update(policy_version=total, last_version=total)
    alive(run, timezone.now())
    run.refresh_from_db()
    return run
