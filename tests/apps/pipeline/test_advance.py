"""Whole runs, carried by passes alone while everything around them goes wrong."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import msgspec
import pytest

from apps.alerts.models import Alert
from apps.buffer.ledger import ledger
from apps.buffer.models import Batch
from apps.buffer.models import Sample as SampleRow
from apps.evaluation.models import Evaluation
from apps.pipeline.advance import advance
from apps.rollouts.cancel import order_stops
from apps.rollouts.models import Attempt, Group, Rollout
from apps.runs.models import Run
from apps.training.models import LearnerStep, live_versions
from apps.trajectories.jobs import record_segment
from apps.trajectories.models import Trajectory
from learner.messages import BatchData
from sandbox_worker.messages import Outcome, ScriptedCall, SegmentReady
from tests.apps.factories import (
    CONFIG,
    START,
    Learner,
    Sandbox,
    make_run,
    segment_of,
)
from tests.apps.policy_server import PolicyServer
from wire.store import FolderStore

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("queues")]


@dataclass
class World:
    """One run and the programs around it; chance says how often something goes wrong."""

    run: Run
    store: FolderStore
    server: PolicyServer
    rng: Random
    chance: float
    now: datetime = START
    segments: int = 0
    written: list[tuple[str, bytes]] = field(default_factory=list)
    batches: dict[int, BatchData] = field(default_factory=dict)
    """What was handed over, by batch: the store keeps it for no longer than its step."""
    killed: Counter[str] = field(default_factory=Counter)
    sandbox: Sandbox = field(init=False)
    learner: Learner = field(init=False)

    def __post_init__(self) -> None:
        self.sandbox, self.learner = Sandbox(self.now), Learner(self.now)

    def wrong(self, what: str, factor: float = 1.0) -> bool:
        happens = self.rng.random() < self.chance * factor
        self.killed[what] += happens
        return happens

    def turn(self) -> None:
        """A second or more of everybody's life, in any order."""
        self.now += timedelta(seconds=self.rng.choice([1, 1, 2, 12]))
        actors = [self.pass_over, self.work, self.learn, self.meddle]
        self.rng.shuffle(actors)
        for act in actors:
            act()

    def pass_over(self) -> None:
        for _ in range(2 if self.wrong("pass twice") else 1):
            self.run.refresh_from_db()
            if not self.run.ended:
                advance(self.run, now=self.now)
            for batch in Batch.objects.filter(run=self.run, state="handed"):
                self.batches[batch.pk] = msgspec.json.decode(self.store.get(batch.key), type=BatchData)
            found = ledger(self.run)
            assert found.exact, found.problems
        order_stops(self.store)

    def work(self) -> None:
        if self.wrong("messages lost", 0.3):
            Sandbox(self.now).take()
        self.sandbox.take()
        if self.wrong("worker killed", 0.3):
            self.sandbox = Sandbox(self.now)
        if self.wrong("segment before its worker dies", 0.2):
            self.write()
            self.sandbox = Sandbox(self.now)
        self.write()
        if not self.wrong("heartbeat lost"):
            self.sandbox.beat(self.now)

    def write(self) -> None:
        """Finish some of what is held."""
        names = [name for name in self.sandbox.held if self.rng.random() < 0.8]
        outcomes = [self.sandbox.finish(name, self.verdict(name), self.now) for name in names]
        if not outcomes:
            return
        self.segments += 1
        key = f"outcomes/{self.run.pk}/{self.sandbox.incarnation}/{self.segments:08d}.jsonl"
        self.keep(key, outcomes)
        for _ in range(self.rng.choice([0, 1, 2])):
            self.tell(key)

    def keep(self, key: str, outcomes: list[Outcome]) -> None:
        data = segment_of(outcomes)
        self.store.put(key, data)
        self.written.append((key, data))

    def tell(self, key: str) -> None:
        """A message may come late, doubled, or never."""
        ready = SegmentReady(run_id=self.run.pk, key=key, sha256="", incarnation="", outcomes=0)
        record_segment(msgspec.to_builtins(ready))

    def verdict(self, name: str) -> str:
        if self.wrong("infra failure"):
            return "none"
        by_script = isinstance(self.sandbox.held[name].policy, ScriptedCall)
        return "solved" if by_script else self.rng.choice(["solved", "unsolved"])

    def learn(self) -> None:
        if self.wrong("step lost", 0.5):
            Learner(self.now).take()
        if self.wrong("learner killed", 0.5):
            self.learner = Learner(self.now)
        self.learner.take()
        self.learner.step(self.now)
        self.learner.beat(self.now)

    def meddle(self) -> None:
        if self.wrong("policy server restarted"):
            self.server.served = []
        if self.written and self.wrong("old segment again"):
            key, data = self.rng.choice(self.written)
            self.store.put(key.replace(".jsonl", f"-{self.segments}.jsonl"), data)
            self.tell(key)

    def live(self, turns: int) -> None:
        for _ in range(turns):
            self.turn()
            self.run.refresh_from_db()
            if self.run.ended:
                return


def world(store: FolderStore, server: PolicyServer, seed: int, chance: float) -> World:
    return World(make_run(CONFIG, url=server.url), store, server, Random(seed), chance)


def test_passes_alone_carry_a_training_from_the_first_evaluation_to_the_last(
    store: FolderStore, policy_server: PolicyServer
) -> None:
    calm = world(store, policy_server, 1, 0.0)
    calm.live(200)
    run = calm.run
    assert run.state == "finished", (run.state, run.failure)
    assert run.training_ended == "all 2 SFT and 4 GRPO steps are done"
    held_out = Evaluation.objects.of(run).filter(suite="held-out").order_by("version")
    assert [(one.version, one.why, one.state) for one in held_out] == [
        (0, "first", "finished"),
        (2, "warm", "finished"),
        (4, "interim", "finished"),
        (6, "last", "finished"),
    ]
    steps = LearnerStep.objects.of(run).order_by("version")
    assert [(step.version, step.kind, step.state) for step in steps] == [
        (version, "sft" if version <= 2 else "grpo", "applied") for version in range(1, 7)
    ]
    assert not Alert.objects.open().exists()
    check(calm)


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 20))])
def test_whatever_goes_wrong_a_training_finishes_and_its_ledger_is_exact(
    store: FolderStore, policy_server: PolicyServer, seed: int
) -> None:
    stormy = world(store, policy_server, seed, 0.12)
    stormy.live(1500)
    assert stormy.run.state == "finished", (stormy.run.state, stormy.run.failure, stormy.killed)
    check(stormy)


def check(world: World) -> None:
    """What holds of every finished run."""
    run = world.run
    versions = [step.version for step in LearnerStep.objects.of(run)]
    assert len(set(versions)) == len(versions)
    assert not Rollout.objects.of(run).undone().exists()
    assert not Attempt.objects.of(run).filter(state="active").exists()
    assert not SampleRow.objects.of(run).filter(state__in=["buffered", "handed"]).exists()
    counted = Trajectory.objects.of(run).with_verdict().values_list("rollout_id", flat=True)
    assert len(set(counted)) == len(counted)
    live = live_versions(run)
    for batch in Batch.objects.filter(run=run, kind="grpo", state="applied"):
        data = world.batches[batch.pk]
        assert batch.max_staleness <= CONFIG.max_staleness
        assert all(len(group.rewards) == CONFIG.group_size and len(set(group.rewards)) > 1 for group in data.groups)
        assert sum(sum(sample.trainable) for group in data.groups for sample in group.samples) == batch.tokens
        assert batch.step.version in live
    assert not Group.objects.of(run).filter(purpose="train", state__in=["open", "complete", "admitted"]).exists()
    assert list(world.store.list("batches")) == []
