"""Runs for the tests of the stages, and the programs around them played at the wire: segments, outcomes, heartbeats."""

import threading
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from queue import Empty
from typing import Any, TypeVar

import msgspec
from django.db import connections

from apps.accounts.models import Project
from apps.fleet.models import Endpoint, Worker
from apps.policies.models import Policy
from apps.rollouts.claim import Claim, claim_rollouts
from apps.rollouts.plan import plan_groups
from apps.runs.config import RunConfig
from apps.runs.launch import launch_run
from apps.runs.models import Run
from apps.tasks.models import Task, TaskSet, TaskVersion
from apps.trajectories.record import record_segment
from apps.trajectories.store import object_store
from controlplane.celery import app
from learner.messages import StepMetrics, StepOutcome, StepRequest
from sandbox_worker.messages import (
    Check,
    Ending,
    GradeReport,
    Outcome,
    Phases,
    PolicyCall,
    ResourceUse,
    RolloutBatch,
    RolloutRequest,
    Round,
)
from wire.incarnation import Heartbeat
from wire.store import MissingObjectError

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = RunConfig(
    group_size=2,
    groups_per_step=2,
    grpo_steps=4,
    sft_steps=2,
    sft_batch=2,
    sft_traces_per_family=2,
    evaluation_tries=2,
    interim_tries=1,
    evaluation_every=2,
    resumable_every=2,
    concurrency=16,
    attempts=3,
)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def make_task(name: str, family: str = "count", *, state: str = "admitted", **settings: Any) -> TaskVersion:
    task = Task.objects.create(project=Project.default(), name=name, family=family)
    return TaskVersion.objects.create(
        task=task,
        number=1,
        digest=uuid.uuid4().hex * 2,
        key=f"tasks/{name}.tar",
        instruction="Count them.",
        round_limit=2,
        settings=settings,
        state=state,
    )


def make_task_set(name: str = "basics") -> TaskSet:
    """Four tasks of two families to learn from, two held out, one of an unseen family."""
    entries = [(make_task(f"{name}-train-{n}", f"family-{n % 2}"), "train") for n in range(4)]
    entries += [(make_task(f"{name}-held-{n}", f"family-{n}"), "held-out") for n in range(2)]
    entries.append((make_task(f"{name}-unseen", "strange"), "unseen"))
    return TaskSet.freeze(Project.default(), name, entries)


def make_policy(name: str) -> Policy:
    prefix = f"policies/{name}"
    object_store().put(f"{prefix}/model.safetensors", b"weights")
    return Policy.objects.create(project=Project.default(), name=name, state="ready", digest="e" * 64, prefix=prefix)


def make_run(
    config: RunConfig = CONFIG, *, url: str = "http://127.0.0.1:9", name: str = "run", kind: str = "training"
) -> Run:
    """Queued, as launched."""
    endpoint, _ = Endpoint.objects.get_or_create(name=url, defaults={"url": url})
    return launch_run(
        Project.default(), None, name, make_task_set(name), make_policy(name), config, kind=kind, endpoint=endpoint
    )


def running(config: RunConfig = CONFIG, *, name: str = "run") -> Run:
    run = make_run(config, name=name)
    run.begin(START)
    return run


def make_worker(kind: str = "sandbox", *, now: datetime = START, **given: Any) -> Worker:
    """As after one heartbeat."""
    return beat(given.pop("incarnation", uuid.uuid4().hex), kind=kind, now=now, **given)


def beat(incarnation: str, *, kind: str = "sandbox", now: datetime = START, **given: Any) -> Worker:
    return Worker.beat(msgspec.convert(make_heartbeat(incarnation, kind=kind, now=now, **given), Heartbeat), now)


def make_heartbeat(incarnation: str, *, kind: str = "sandbox", now: datetime = START, **given: Any) -> dict[str, Any]:
    holding = tuple(given.get("holding", ()))
    return {
        "incarnation": incarnation,
        "kind": kind,
        "host": "host",
        "slot": incarnation,
        "pid": 1,
        "started_at": START.timestamp(),
        "sent_at": now.timestamp(),
        "capacity": 16,
        "busy": len(holding),
        **given,
        "holding": holding,
    }


def plan_and_claim(
    run: Run, size: int = 2, *, purpose: str = "train", now: datetime = START, groups: int = 1, **given: Any
) -> list[Claim]:
    tasks = run.task_set.versions("train")[:groups]
    plan_groups(run, tasks, purpose=purpose, size=size, **given)
    return claim(run, now=now)


def claim(run: Run, *, now: datetime = START, versions: Iterable[int] | None = None, limit: int = 1000) -> list[Claim]:
    live = {run.policy_version} if versions is None else set(versions)
    return claim_rollouts(run, limit=limit, live_versions=live, now=now, revision=1)


def make_outcome(
    claim: Claim | RolloutRequest, run_id: int, verdict: str = "solved", *, version: int | None = 0, **changes: Any
) -> Outcome:
    broken = verdict == "none"
    played = Round(
        index=1,
        message="wc -l",
        action="wc -l lines.txt",
        observation="3",
        output="3",
        output_bytes=1,
        exit_code=0,
        end="exited",
        truncated=False,
        started_at=START.timestamp(),
        model_seconds=0.1,
        box_seconds=0.1,
        policy_version=version,
        prompt_ids=(1, 2),
        sampled_ids=(3, 4, 5),
        logprobs=() if version is None else (-0.1, -0.2, -0.3),
    )
    made = Outcome(
        rollout_id=claim.rollout_id,
        run_id=run_id,
        attempt=claim.attempt,
        fence=claim.fence,
        incarnation="worker",
        ending=Ending(kind="infra", detail="box", evidence="no disk") if broken else Ending(kind="submitted"),
        rounds=(played,),
        grade=GradeReport(
            verdict="solved" if verdict == "solved" else "none" if broken else "unsolved",
            score=None if broken else float(verdict == "solved"),
            checks=() if broken else (Check(name="counts", passed=verdict == "solved"),),
            error="no box to grade in" if broken else "",
        ),
        phases=Phases(waited=0.1, start=0.1, agent=1.0, grade=0.5),
        use=ResourceUse(boxes_started=2, prompt_tokens=2, sampled_tokens=3),
        started_at=START.timestamp(),
        finished_at=START.timestamp() + 2,
    )
    return msgspec.structs.replace(made, **changes)


def segment_of(outcomes: Iterable[Outcome]) -> bytes:
    return b"".join(msgspec.json.encode(outcome) + b"\n" for outcome in outcomes)


def write_segment(run: Run, outcomes: Iterable[Outcome], *, name: str = "") -> str:
    """Into the store only, as a worker whose message was lost."""
    key = f"outcomes/{run.pk}/worker/{name or uuid.uuid4().hex}.jsonl"
    object_store().put(key, segment_of(outcomes))
    return key


def record(run: Run, outcomes: Iterable[Outcome], *, now: datetime = START, cap: int = 3) -> int:
    key = write_segment(run, outcomes)
    return record_segment(run, key, object_store().get(key), sha256="", cap=cap, now=now)


def play(run: Run, verdicts: list[str], *, now: datetime = START, purpose: str = "train", **given: Any) -> list[Claim]:
    """One group whose tries ended so, recorded."""
    claims = plan_and_claim(run, len(verdicts), purpose=purpose, now=now, **given)
    outcomes = [
        make_outcome(claim, run.pk, verdict, version=claim.policy_version)
        for claim, verdict in zip(claims, verdicts, strict=True)
    ]
    record(run, outcomes, now=now)
    return claims


def drain_queue(name: str) -> list[dict[str, Any]]:
    """The arguments of all messages that wait in a queue of the real broker."""
    found: list[dict[str, Any]] = []
    with app.connection_for_read() as connection, connection.SimpleQueue(name) as queue:
        while True:
            try:
                message = queue.get_nowait()
            except Empty:
                return found
            found.append(message.payload[0][0])
            message.ack()


class Sandbox:
    """A sandbox worker, played: it takes batches from the broker, and writes segments into the store."""

    def __init__(self, now: datetime, slot: str = "0") -> None:
        self.incarnation = uuid.uuid4().hex
        self.slot = slot
        self.started = now
        self.held: dict[str, RolloutRequest] = {}

    def take(self) -> None:
        for message in drain_queue("rollouts"):
            for request in msgspec.convert(message, RolloutBatch).requests:
                self.held[f"{request.rollout_id}:{request.fence}"] = request

    def beat(self, now: datetime) -> None:
        beat(self.incarnation, now=now, slot=self.slot, started_at=self.started.timestamp(), holding=tuple(self.held))

    def finish(self, name: str, verdict: str, now: datetime) -> Outcome:
        request = self.held.pop(name)
        version = request.policy.version if isinstance(request.policy, PolicyCall) else None
        return make_outcome(
            request,
            request.run_id,
            verdict,
            version=version,
            incarnation=self.incarnation,
            started_at=now.timestamp(),
            finished_at=now.timestamp() + 1,
        )


METRICS = StepMetrics(
    loss=0.1, grad_norm=0.2, entropy=0.3, trained_tokens=4, sequences=4, groups=2, flat_groups=0, single_groups=0,
    seconds=1.0, load_seconds=0.1, write_seconds=0.1, tokens_per_second=4.0,
)  # fmt: skip


class Learner:
    """A learner, played: what it has in memory is one version of one run."""

    def __init__(self, now: datetime, slot: str = "0") -> None:
        self.incarnation = uuid.uuid4().hex
        self.slot = slot
        self.started = now
        self.resident: tuple[int, int] | None = None
        self.waiting: list[StepRequest] = []

    def take(self) -> None:
        self.waiting += [msgspec.convert(message, StepRequest) for message in drain_queue("learner")]

    def beat(self, now: datetime) -> None:
        holding = tuple(f"{request.step_id}:{request.fence}" for request in self.waiting)
        beat(
            self.incarnation,
            kind="learner",
            now=now,
            slot=self.slot,
            started_at=self.started.timestamp(),
            holding=holding,
        )

    def step(self, now: datetime, *, error: str = "") -> StepOutcome | None:
        """Do the first step that waits and write its outcome."""
        if not self.waiting:
            return None
        request = self.waiting.pop(0)
        outcome = step_outcome(request, state=self._state(request, error), error=error, now=now)
        if outcome.state == "made":
            self.resident = (request.run_id, request.version)
            write_weights(request)
        object_store().put(request.outcome_key, msgspec.json.encode(outcome))
        return outcome

    def _state(self, request: StepRequest, error: str) -> str:
        if error:
            return "failed"
        store = object_store()
        try:
            store.get(f"{request.parent_prefix}/model.safetensors")
            store.get(request.batch_key)
        except MissingObjectError:  # a message so late that its step is settled, and what it took is deleted
            return "failed"
        resumable = f"{request.parent_prefix}/trainer/state.json" in set(store.list(request.parent_prefix))
        there = self.resident == (request.run_id, request.parent_version) or request.fresh_optimizer or resumable
        return "made" if there else "not_resident"


def write_weights(request: StepRequest, size: int = 100) -> None:
    store = object_store()
    store.put(f"{request.write_prefix}/model.safetensors", b"w" * size)
    if request.resumable:
        store.put(f"{request.write_prefix}/trainer/mean.safetensors", b"t" * 3 * size)
        store.put(f"{request.write_prefix}/trainer/state.json", b"{}")


def step_outcome(
    request: StepRequest, *, state: str = "made", error: str = "", now: datetime = START, **changes: Any
) -> StepOutcome:
    made = state == "made"
    values = {
        "run_id": request.run_id,
        "step_id": request.step_id,
        "fence": request.fence,
        "incarnation": "learner",
        "state": state,
        "error": error,
        "prefix": request.write_prefix if made else "",
        "digest": "f" * 64 if made else "",
        "size_bytes": 400 if request.resumable else 100,
        "resumable": made and request.resumable,
        "metrics": METRICS if made else None,
        "started_at": now.timestamp(),
        "finished_at": now.timestamp(),
    }
    return msgspec.convert({**values, **changes}, StepOutcome)


def together(work: Callable[[], T], count: int = 2) -> list[T]:
    """The same work at once, each in a thread with a database connection of its own."""
    barrier = threading.Barrier(count)

    def one(_: int) -> T:
        barrier.wait()
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
