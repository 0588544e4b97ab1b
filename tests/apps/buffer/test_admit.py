import msgspec
import pytest
from django.db import IntegrityError, transaction

from apps.buffer.admit import admit_groups
from apps.buffer.ledger import ledger
from apps.buffer.models import Batch, Sample
from apps.rewards.score import score_new
from apps.rollouts.claim import Claim
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.trajectories.models import Trajectory
from tests.apps.factories import claim, make_outcome, plan_and_claim, play, record, running

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def admit(run: Run, *, live: set[int] | None = None) -> int:
    score_new(run)
    found = admit_groups(run, live_versions={0} if live is None else live)
    assert ledger(run).exact, ledger(run).problems
    return found


def park(run: Run, size: int = 2) -> None:
    """A group of which every try but the first breaks until it is parked."""
    claims = plan_and_claim(run, size)
    record(run, [make_outcome(claims[0], run.pk)])
    lose_for_good(run, [one.rollout_id for one in claims[1:]], claims[1:])


def lose_for_good(run: Run, ids: list[int], claims: list[Claim]) -> None:
    for _ in range(3):
        record(run, [make_outcome(one, run.pk, "none") for one in claims])
        claims = [one for one in claim(run) if one.rollout_id in ids]


def test_a_whole_rewarded_group_is_admitted_once() -> None:
    run = running()
    play(run, ["solved", "unsolved"])
    assert [admit(run), admit(run)] == [1, 0]
    assert Group.objects.get().state == "admitted"
    assert set(Sample.objects.values_list("state", "tokens", "oldest_version")) == {("buffered", 3, 0)}


def test_a_group_with_a_try_to_wait_for_stays_open() -> None:
    run = running()
    first, _ = plan_and_claim(run)
    record(run, [make_outcome(first, run.pk)])
    assert admit(run) == 0
    assert Group.objects.get().state == "open"


def test_a_group_that_has_no_rewards_yet_stays_open() -> None:
    run = running()
    play(run, ["solved", "unsolved"])
    assert admit_groups(run, live_versions={0}) == 0


def test_an_infra_failure_is_out_at_once_and_its_try_is_waited_for() -> None:
    run = running()
    play(run, ["solved", "none"])
    admit(run)
    assert set(Sample.objects.values_list("state", "reason")) == {("buffered", ""), ("discarded", "infra")}
    (again,) = claim(run)
    record(run, [make_outcome(again, run.pk)])
    assert admit(run) == 1


def test_a_parked_try_is_refilled_alone() -> None:
    run = running()
    park(run)
    admit(run)
    assert list(Rollout.objects.order_by("index").values_list("index", "state")) == [
        (0, "recorded"),
        (1, "parked"),
        (2, "planned"),
    ]
    (again,) = claim(run)
    record(run, [make_outcome(again, run.pk)])
    assert admit(run) == 1


def test_a_group_that_loses_too_many_is_dropped_whole() -> None:
    run = running()
    park(run, size=4)
    admit(run)
    assert Group.objects.values_list("state", "dropped_reason").get() == ("dropped", "incomplete")
    assert set(Sample.objects.values_list("state", "reason")) == {("discarded", "incomplete"), ("discarded", "infra")}


def test_refills_are_two_at_most() -> None:
    run = running()
    park(run)
    for _ in range(2):
        admit(run)
        (again,) = claim(run)
        lose_for_good(run, [again.rollout_id], [again])
    admit(run)
    assert Group.objects.values_list("state", "dropped_reason", "refills").get() == ("dropped", "incomplete", 2)


def test_a_group_of_a_version_that_was_rewound_is_dropped() -> None:
    run = running()
    run.take_version(5)
    play(run, ["solved", "unsolved"])
    admit(run, live={0, 4})
    assert set(Sample.objects.values_list("state", "reason")) == {("discarded", "rewound")}


def test_a_try_without_a_round_is_as_old_as_its_claim() -> None:
    run = running()
    run.take_version(4)
    first, second = plan_and_claim(run)
    empty = msgspec.structs.replace(make_outcome(first, run.pk, "unsolved"), rounds=())
    record(run, [empty, make_outcome(second, run.pk, version=4)])
    assert admit(run, live={0, 4}) == 1
    assert set(Sample.objects.values_list("oldest_version", flat=True)) == {4}


def test_what_is_recorded_after_its_group_was_dropped_goes_with_it() -> None:
    run = running()
    claims = plan_and_claim(run)
    Group.objects.get().drop("run ended")
    record(run, [make_outcome(one, run.pk) for one in claims])
    admit(run)
    assert set(Sample.objects.values_list("state", "reason")) == {("discarded", "run ended")}


def test_evaluations_and_traces_never_enter() -> None:
    run = running()
    play(run, ["solved", "unsolved"], purpose="evaluation", suite="held-out", pinned_version=0)
    play(run, ["solved"], purpose="reference", script="reference")
    assert admit(run) == 0
    assert not Sample.objects.exists()


def test_a_second_trajectory_that_counts_is_refused() -> None:
    run = running()
    play(run, ["none"])
    record(run, [make_outcome(one, run.pk) for one in claim(run)])
    with pytest.raises(IntegrityError, match="trajectory_counts_once"), transaction.atomic():
        Trajectory.objects.filter(counts=False).update(counts=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "eaten"},
        {"state": "discarded"},
        {"state": "discarded", "reason": "boredom"},
        {"reason": "flat"},
        {"state": "trained"},
    ],
)
def test_a_sample_stands_in_one_place_with_its_reason(wrong: dict[str, str]) -> None:
    run = running()
    play(run, ["solved", "unsolved"])
    admit(run)
    with pytest.raises(IntegrityError), transaction.atomic():
        Sample.objects.update(**wrong)


def test_one_batch_is_open_at_a_time() -> None:
    run = running()
    values = {"run": run, "kind": "sft", "base_version": 0, "groups": 1, "sequences": 1, "tokens": 1}
    Batch.objects.create(**values)
    with pytest.raises(IntegrityError, match="batch_one_open"), transaction.atomic():
        Batch.objects.create(**values)
    with pytest.raises(IntegrityError, match="batch_kind"), transaction.atomic():
        Batch.objects.create(**{**values, "kind": "dpo", "state": "applied"})
